//! Manifest files as users write them: their documents, and where in the text each value stands. Must not judge what
//! the documents say.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use self::places::Places;

mod places;

/// One file's text.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    pub text: String,
}

/// One object of a file.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub file: Arc<File>,
    /// Counted from 1 over the documents that are not empty.
    pub document: usize,
    pub value: Value,
    places: Arc<Places>,
}

/// A stretch of a file's text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSpan {
    pub line: usize,
    pub column: usize,
    pub bytes: Range<usize>,
}

/// A place in a value's own text, both from 1.
#[derive(Clone, Copy)]
struct Position {
    line: usize,
    column: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} holds no .yaml file", path.display())]
    EmptyDirectory { path: PathBuf },
    /// The text is no YAML.
    #[error("{}:{}:{}: {message}", file.path.display(), place.line, place.column)]
    Syntax {
        file: Arc<File>,
        place: TextSpan,
        message: String,
    },
}

/// Reads files, directories as their `.yaml` files in name order (not theirs in turn), and `-` as standard input.
///
/// # Errors
/// The first file that cannot be read or is no YAML.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, ReadError> {
    let mut manifests = Vec::new();
    for path in files(paths)? {
        let text = if path.as_os_str() == "-" {
            io::read_to_string(io::stdin())
        } else {
            std::fs::read_to_string(&path)
        };
        let text = text.map_err(|source| ReadError::File {
            path: path.clone(),
            source,
        })?;
        manifests.extend(parse(File { path, text })?);
    }
    Ok(manifests)
}

/// The files that [`read`] reads, in its order.
///
/// # Errors
/// A directory that cannot be listed or holds no `.yaml` file.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let inside = yaml_files(path).map_err(|source| ReadError::File {
            path: path.clone(),
            source,
        })?;
        if inside.is_empty() {
            return Err(ReadError::EmptyDirectory { path: path.clone() });
        }
        files.extend(inside);
    }
    Ok(files)
}

/// The objects of one file.
///
/// # Errors
/// [`ReadError::Syntax`].
pub fn parse(file: File) -> Result<Vec<Manifest>, ReadError> {
    let file = Arc::new(file);
    let syntax = |place: TextSpan, message: String| ReadError::Syntax {
        file: Arc::clone(&file),
        place,
        message,
    };
    // Values first: that reader bounds depth and aliases, the one for places does not.
    let values: Vec<Value> = serde_saphyr::from_multiple(&file.text).map_err(|error| {
        let (line, column) = error
            .location()
            .map_or((1, 1), |at| (at.line() as usize, at.column() as usize));
        syntax(TextSpan::at(&file.text, line, column), complaint(&error))
    })?;
    let places = places::of_documents(&file.text).map_err(|(place, message)| syntax(place, message))?;
    let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
    if values.len() != places.len() {
        let message = format!("{} documents have a value, {} a place", values.len(), places.len());
        return Err(syntax(TextSpan::at(&file.text, 1, 1), message));
    }
    let manifest = |(index, (value, places))| Manifest {
        file: Arc::clone(&file),
        document: index + 1,
        value,
        places: Arc::new(places),
    };
    Ok(values.into_iter().zip(places).enumerate().map(manifest).collect())
}

impl Manifest {
    pub fn api_version(&self) -> &str {
        self.text_at("/apiVersion")
    }

    pub fn kind(&self) -> &str {
        self.text_at("/kind")
    }

    pub fn name(&self) -> &str {
        self.text_at("/metadata/name")
    }

    pub fn namespace(&self) -> Option<&str> {
        self.value.pointer("/metadata/namespace").and_then(Value::as_str)
    }

    /// The text at a JSON pointer; empty where there is none.
    pub fn text_at(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Where the value at a JSON pointer stands; where there is none, the nearest value around it.
    pub fn place(&self, pointer: &str) -> TextSpan {
        self.places.of(pointer)
    }

    /// Where a line and column (from 1) *of the text at the pointer* stand in the file. Where YAML folds or escapes
    /// the text, so that the two do not correspond, the whole value.
    pub fn place_within(&self, pointer: &str, line: usize, column: usize) -> TextSpan {
        self.places.within(&self.file.text, pointer, Position { line, column })
    }
}

impl TextSpan {
    /// The character at a line and column, both from 1; the end of the text for one that does not exist.
    pub fn at(text: &str, line: usize, column: usize) -> Self {
        let line_start = text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum::<usize>();
        let rest = text.get(line_start..).unwrap_or_default();
        let rest = rest.split('\n').next().unwrap_or_default();
        let mut ahead = rest.char_indices().skip(column.saturating_sub(1));
        let (offset, length) = ahead
            .next()
            .map_or((rest.len(), 0), |(at, character)| (at, character.len_utf8()));
        let start = line_start + offset;
        Self {
            line,
            column,
            bytes: start..start + length,
        }
    }
}

fn yaml_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The reader's message without the place, which is told beside it, and without its advice to programmers.
fn complaint(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let text = text.split(" at line ").next().unwrap_or_default();
    text.split(", set DuplicateKeyPolicy")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests(text: &str) -> Vec<Manifest> {
        parse(File {
            path: PathBuf::from("test.yaml"),
            text: text.to_owned(),
        })
        .unwrap()
    }

    fn around(manifest: &Manifest, pointer: &str) -> String {
        manifest.file.text[manifest.place(pointer).bytes].to_owned()
    }

    #[test]
    fn every_value_is_found_where_it_stands() {
        let text = "# first\na: {b: [1, two]}\n\"c/d\": 'x y'\n---\n---\nanchor: &x [ü, z]\nalias: *x\n";
        let [first, second] = manifests(text).try_into().unwrap();
        assert_eq!((first.document, second.document), (1, 2));
        assert_eq!(around(&first, "/a/b/1"), "two");
        assert_eq!(around(&first, "/c~1d"), "'x y'");
        assert_eq!(around(&second, "/anchor/1"), "z");
        assert_eq!(around(&second, "/alias"), "*x");
        let z = second.place("/anchor/1");
        assert_eq!((z.line, z.column), (6, 16));
    }

    #[test]
    fn what_is_absent_stands_where_the_nearest_value_does() {
        let [only] = manifests("a:\n  b: 1\n").try_into().unwrap();
        assert_eq!(around(&only, "/a/c/d"), "b: 1");
        assert_eq!(only.place("/x").line, 1);
    }

    #[test]
    fn a_place_within_a_text_is_exact_where_lines_correspond() {
        let text = "plain: abc\nquoted: 'abc'\nblock: |\n  one\n   two\nleading: |2\n\n    x\nfolded: >\n  a\n  \
         b\nescaped: \"a\\tb\"\n";
        let [only] = manifests(text).try_into().unwrap();
        let at = |pointer: &str, line, column| {
            let place = only.place_within(pointer, line, column);
            only.file.text[place.bytes].to_owned()
        };
        assert_eq!(at("/plain", 1, 2), "b");
        assert_eq!(at("/quoted", 1, 3), "c");
        assert_eq!(at("/block", 1, 1), "o");
        assert_eq!(at("/block", 2, 2), "t");
        assert_eq!(at("/folded", 1, 3), "a");
        assert_eq!(at("/escaped", 1, 2), "\"a\\tb\"");
        // Past the end of a line there is nothing to underline, and nothing to panic about.
        assert_eq!(at("/plain", 1, 99), "");
        assert_eq!(at("/block", 99, 9), "");
    }

    #[test]
    fn text_that_is_no_yaml_is_refused_with_its_place() {
        let error = parse(File {
            path: PathBuf::from("bad.yaml"),
            text: "a: 1\na: 2\n".to_owned(),
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "bad.yaml:2:1: duplicate mapping key: a");
    }
}
