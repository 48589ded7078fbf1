//! Redraws lines in place on a terminal, cut to its size. Must not know what the lines say.

use std::io::{self, IsTerminal as _, Write};

use anstyle::Style;

use super::frame::{Line, Piece};

/// Where a terminal tells no width, and in a pipe.
const COLUMNS: usize = 80;
/// In less, sentences cannot be read.
const COLUMNS_MIN: usize = 40;
/// Of the further lines of a sentence.
const INDENTATION: &str = "        ";

/// How many lines stand on the terminal from the last time.
#[derive(Default)]
pub struct Screen {
    drawn: usize,
}

/// Whether the terminal can move its cursor.
pub fn can_redraw() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal on standard output.
pub fn width() -> Option<u16> {
    terminal_size::terminal_size().map(|(width, _)| width.0)
}

/// The lines for standard output, once: wrapped to the width of its terminal, elsewhere to 80 columns and without colours.
pub fn page(lines: &[Line]) -> Vec<String> {
    let is_terminal = io::stdout().is_terminal();
    let columns = width().filter(|_| is_terminal).map_or(COLUMNS, usize::from);
    paginate(lines, columns, is_terminal && colours())
}

/// Nothing is cut: what is too long for a line goes on in the next one, between words where there are any.
pub fn paginate(lines: &[Line], columns: usize, colours: bool) -> Vec<String> {
    let columns = columns.max(COLUMNS_MIN);
    let flowing = lines.iter().flat_map(|line| flow(line, columns));
    let rendered = flowing.map(|line| render_line(&line, columns, colours));
    rendered.map(|line| line.trim_end().to_owned()).collect()
}

/// Breaks a line wherever it is full, and indents what follows.
fn flow(line: &Line, columns: usize) -> Vec<Line> {
    let mut flowing = vec![Line::default()];
    let mut room = columns;
    for piece in &line.0 {
        let mut text = String::new();
        for word in piece.text.split_inclusive(' ') {
            let mut rest: Vec<char> = word.chars().collect();
            while rest.iter().filter(|character| **character != ' ').count() > room {
                let is_too_long = rest.len() > columns - INDENTATION.len();
                let here = if is_too_long { room } else { 0 };
                text.extend(rest.drain(..here));
                push(&mut flowing, piece, std::mem::take(&mut text));
                trim_end(&mut flowing);
                flowing.push(Line(vec![Piece {
                    style: Style::new(),
                    text: INDENTATION.to_owned(),
                }]));
                room = columns - INDENTATION.len();
            }
            room = room.saturating_sub(rest.len());
            text.extend(rest);
        }
        if let Some(last) = flowing.last_mut() {
            last.0.push(Piece {
                style: piece.style,
                text,
            });
        }
    }
    trim_end(&mut flowing);
    flowing
}

/// Takes the blanks from the end of the last line, which may come from several pieces: they would count as letters.
fn trim_end(lines: &mut [Line]) {
    let pieces = lines.last_mut().map(|line| line.0.iter_mut().rev());
    for piece in pieces.into_iter().flatten() {
        piece.text.truncate(piece.text.trim_end().len());
        if !piece.text.is_empty() {
            return;
        }
    }
}

impl Screen {
    /// Replaces what was drawn before.
    pub(super) fn draw(&mut self, out: &mut impl Write, lines: &[Line]) -> io::Result<()> {
        let size = terminal_size::terminal_size();
        let (columns, rows) = size.map_or((COLUMNS, 24), |(width, height)| (width.0 as usize, height.0 as usize));
        let rendered = render(lines, columns, rows.saturating_sub(1), colours());
        // One write, so that no half-drawn frame shows: up to the first line, clear from there, the lines.
        let up = if self.drawn == 0 {
            String::new()
        } else {
            format!("\x1b[{}A", self.drawn)
        };
        self.drawn = rendered.len();
        let body: String = rendered.iter().map(|line| format!("{line}\n")).collect();
        out.write_all(format!("{up}\r\x1b[0J{body}").as_bytes())
    }
}

/// <https://no-color.org>: any value but the empty one.
fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Wrapped to `columns` and cut to `rows`: a line that the terminal wraps, or a frame that scrolls, could not be redrawn
/// in place.
fn render(lines: &[Line], columns: usize, rows: usize, colours: bool) -> Vec<String> {
    let lines: Vec<Line> = lines.iter().flat_map(|line| wrap(line, columns)).collect();
    let mut rendered: Vec<String> = lines
        .iter()
        .take(rows)
        .map(|line| render_line(line, columns, colours))
        .collect();
    if lines.len() > rows
        && let Some(last) = rendered.last_mut()
    {
        *last = format!("… {} more lines", lines.len() - rows + 1);
    }
    rendered
}

/// Breaks the last piece, which is the one that may be a sentence, between words.
fn wrap(line: &Line, columns: usize) -> Vec<Line> {
    let Some((sentence, head)) = line.0.split_last() else {
        return vec![line.clone()];
    };
    let head_length: usize = head.iter().map(|piece| piece.text.chars().count()).sum();
    let fits = head_length + sentence.text.chars().count() <= columns;
    if fits || columns <= INDENTATION.len() {
        return vec![line.clone()];
    }
    let mut wrapped = vec![Line(head.to_vec())];
    let (mut part, mut room) = (String::new(), columns.saturating_sub(head_length));
    for word in sentence.text.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if part.chars().count() + length > room && !part.is_empty() {
            push(
                &mut wrapped,
                sentence,
                std::mem::replace(&mut part, INDENTATION.to_owned()),
            );
            wrapped.push(Line::default());
            room = columns;
        }
        part.push_str(word);
    }
    push(&mut wrapped, sentence, part);
    wrapped
}

fn push(lines: &mut [Line], like: &Piece, text: String) {
    if let Some(last) = lines.last_mut() {
        last.0.push(Piece {
            style: like.style,
            text: text.trim_end().to_owned(),
        });
    }
}

fn render_line(line: &Line, columns: usize, colours: bool) -> String {
    let mut room = columns;
    let mut text = String::new();
    for piece in &line.0 {
        let cut: String = match piece.text.chars().count() {
            length if length <= room => piece.text.clone(),
            _ => piece.text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        };
        room = room.saturating_sub(piece.text.chars().count());
        match colours {
            true => text.push_str(&format!("{0}{cut}{0:#}", piece.style)),
            false => text.push_str(&cut),
        }
        if room == 0 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    fn line(texts: &[&str]) -> Line {
        Line(
            texts
                .iter()
                .map(|text| Piece {
                    style: Style::new(),
                    text: (*text).to_owned(),
                })
                .collect(),
        )
    }

    #[test]
    fn a_line_is_cut_to_the_width_across_its_pieces() {
        assert_eq!(render_line(&line(&["abc", "defgh"]), 6, false), "abcde…");
        assert_eq!(render_line(&line(&["abc", "def"]), 6, false), "abcdef");
        assert_eq!(render_line(&line(&["abc", "def", "g"]), 3, false), "abc");
    }

    #[test]
    fn a_long_sentence_is_wrapped_between_words_and_indented() {
        let lines = [line(&["  dev  ", "cluster dev-2 has one available"])];
        let expected = ["  dev  cluster dev-2", "        has one", "        available"];
        assert_eq!(render(&lines, 20, 9, false), expected);
        assert_eq!(
            render(&[line(&["unbreakable-and-long"])], 12, 9, false),
            ["unbreakable…"]
        );
    }

    #[test]
    fn a_page_cuts_nothing_and_fits_its_columns() {
        let words = line(&[
            "  gate/not-on-weekends Hold ",
            "GateHolds",
            "  until Monday, eight o'clock",
        ]);
        let long = line(&["  ", &"x".repeat(90), "y end"]);
        let page = paginate(&[words, long], 40, false);
        let expected = [
            "  gate/not-on-weekends Hold GateHolds",
            "        until Monday, eight o'clock",
            &format!("  {}", "x".repeat(38)),
            &format!("        {}", "x".repeat(32)),
            &format!("        {}y end", "x".repeat(20)),
        ];
        assert_eq!(page, expected);
    }

    #[test]
    fn blanks_at_the_end_of_a_full_line_cut_nothing() {
        let padded = line(&["  ", &"x".repeat(28), "  ", "  Active", "    ", "at once"]);
        let first = format!("  {}    Active", "x".repeat(28));
        assert_eq!(paginate(&[padded], 40, false), [&first, "        at once"]);
    }

    #[test]
    fn a_frame_that_is_too_high_says_how_much_is_hidden() {
        let lines = vec![line(&["one"]), line(&["two"]), line(&["three"])];
        assert_eq!(render(&lines, 80, 2, false), ["one", "… 2 more lines"]);
    }

    #[test]
    fn colours_are_escapes_only_when_wanted() {
        let coloured = Line(vec![Piece {
            style: AnsiColor::Red.on_default(),
            text: "no".to_owned(),
        }]);
        assert_eq!(render_line(&coloured, 80, true), "\x1b[31mno\x1b[0m");
        assert_eq!(render_line(&coloured, 80, false), "no");
    }
}
