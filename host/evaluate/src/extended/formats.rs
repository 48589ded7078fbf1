//! `format`: the forms that names and values have in Kubernetes. A text is checked against one of them; what is wrong with it is said without
//! repeating it.

use super::url::Url;
use super::{Arguments, Returned, argument, function, method, opaque, owned, text_at, type_of, units};
use crate::budget::charge;
use base64::Engine;
use cel::common::types::{CelList, CelOptional, CelString, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env};

/// One of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Byte,
    Date,
    DateTime,
    Dns1035Label,
    Dns1035LabelPrefix,
    Dns1123Label,
    Dns1123LabelPrefix,
    Dns1123Subdomain,
    Dns1123SubdomainPrefix,
    LabelValue,
    QualifiedName,
    Uri,
    Uuid,
}

opaque!(Format, "kubernetes.NamedFormat");

/// The forms by their names.
const NAMED: [(&str, Format, cel::common::functions::Function); 13] = [
    ("byte", Format::Byte, |_| Ok(owned(Format::Byte))),
    ("date", Format::Date, |_| Ok(owned(Format::Date))),
    ("datetime", Format::DateTime, |_| Ok(owned(Format::DateTime))),
    ("dns1035Label", Format::Dns1035Label, |_| {
        Ok(owned(Format::Dns1035Label))
    }),
    ("dns1035LabelPrefix", Format::Dns1035LabelPrefix, |_| {
        Ok(owned(Format::Dns1035LabelPrefix))
    }),
    ("dns1123Label", Format::Dns1123Label, |_| {
        Ok(owned(Format::Dns1123Label))
    }),
    ("dns1123LabelPrefix", Format::Dns1123LabelPrefix, |_| {
        Ok(owned(Format::Dns1123LabelPrefix))
    }),
    ("dns1123Subdomain", Format::Dns1123Subdomain, |_| {
        Ok(owned(Format::Dns1123Subdomain))
    }),
    ("dns1123SubdomainPrefix", Format::Dns1123SubdomainPrefix, |_| {
        Ok(owned(Format::Dns1123SubdomainPrefix))
    }),
    ("labelValue", Format::LabelValue, |_| Ok(owned(Format::LabelValue))),
    ("qualifiedName", Format::QualifiedName, |_| {
        Ok(owned(Format::QualifiedName))
    }),
    ("uri", Format::Uri, |_| Ok(owned(Format::Uri))),
    ("uuid", Format::Uuid, |_| Ok(owned(Format::Uuid))),
];

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(type_of::<Format>())?;
    function(env, "format.named", vec![STRING_TYPE], named)?;
    for (name, _, make) in NAMED {
        function(env, &format!("format.{name}"), vec![], make)?;
    }
    method(env, "validate", (type_of::<Format>(), vec![STRING_TYPE]), validate)
}

/// The form of that name, if there is one.
fn named<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let name = text_at(&args, 0)?;
    let found = NAMED.iter().find(|(known, ..)| *known == name);
    Ok(owned(match found {
        Some((_, format, _)) => CelOptional::of(Box::new(*format)),
        None => CelOptional::none(),
    }))
}

/// What is wrong with a text, a sentence each; nothing if it has the form.
fn validate<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let format = *argument::<Format>(&args, 0)?;
    let text = text_at(&args, 1)?;
    charge(1 + units(text.len()))?;
    let wrong = problems(format, text);
    if wrong.is_empty() {
        return Ok(owned(CelOptional::none()));
    }
    let wrong = wrong
        .into_iter()
        .map(|problem| Box::new(CelString::from(problem)) as Box<dyn Val + 'v>);
    Ok(CowVal::owned(CelOptional::of(Box::new(CelList::from(
        wrong.collect::<Vec<_>>(),
    )))))
}

fn problems(format: Format, text: &str) -> Vec<&'static str> {
    match format {
        Format::Byte => one(is_base64(text), "it is not base 64"),
        Format::Date => one(is_date(text), "it is not a date such as 2026-01-31"),
        Format::DateTime => one(
            chrono::DateTime::parse_from_rfc3339(text).is_ok(),
            "it is not a date and time such as 2026-01-31T12:00:00Z",
        ),
        Format::Uri => one(Url::parse(text).is_some(), "it is not an absolute URI"),
        Format::Uuid => one(is_uuid(text), "it is not a UUID"),
        Format::Dns1035Label => label_1035(text),
        Format::Dns1123Label => label_1123(text),
        Format::Dns1123Subdomain => subdomain(text),
        Format::Dns1035LabelPrefix => label_1035(&completed(text)),
        Format::Dns1123LabelPrefix => label_1123(&completed(text)),
        Format::Dns1123SubdomainPrefix => subdomain(&completed(text)),
        Format::LabelValue if text.is_empty() => Vec::new(),
        Format::LabelValue => name_63(text),
        Format::QualifiedName => match text.split_once('/') {
            None => name_63(text),
            Some((prefix, name)) => {
                let mut wrong = if name.contains('/') {
                    vec!["more than one / is in it"]
                } else {
                    name_63(name)
                };
                wrong.extend(subdomain(prefix));
                wrong
            }
        },
    }
}

fn one(is_right: bool, problem: &'static str) -> Vec<&'static str> {
    if is_right { Vec::new() } else { vec![problem] }
}

fn both(text: &str, most: usize, too_long: &'static str, form: Option<&'static str>) -> Vec<&'static str> {
    (text.len() > most)
        .then_some(too_long)
        .into_iter()
        .chain(form)
        .collect()
}

/// A prefix is followed by something generated: a `-` at its end is not the last character.
fn completed(prefix: &str) -> String {
    match prefix.strip_suffix('-').filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("{rest}a"),
        None => prefix.to_owned(),
    }
}

const TOO_LONG_63: &str = "it has more than 63 characters";

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| is_lower(c) || c == '-';
    text.starts_with(is_lower) && text.ends_with(is_lower) && text.chars().all(inner)
}

fn label_1123(text: &str) -> Vec<&'static str> {
    let form = "it is not made of lower-case letters, digits and -, with a letter or digit at both ends";
    both(text, 63, TOO_LONG_63, (!is_label(text)).then_some(form))
}

fn label_1035(text: &str) -> Vec<&'static str> {
    let form = "it is not made of lower-case letters, digits and -, with a letter first and a letter or digit last";
    let is_one = is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    both(text, 63, TOO_LONG_63, (!is_one).then_some(form))
}

fn subdomain(text: &str) -> Vec<&'static str> {
    let form =
        "it is not made of lower-case letters, digits, - and ., with a letter or digit at both ends of each part";
    let is_one = text.split('.').all(is_label);
    both(text, 253, "it has more than 253 characters", (!is_one).then_some(form))
}

fn name_63(text: &str) -> Vec<&'static str> {
    let form = "it is not made of letters, digits, -, _ and ., with a letter or digit at both ends";
    let end = |c: char| c.is_ascii_alphanumeric();
    let is_one = text.starts_with(end) && text.ends_with(end) && text.chars().all(|c| end(c) || "-_.".contains(c));
    both(text, 63, TOO_LONG_63, (!is_one).then_some(form))
}

fn is_base64(text: &str) -> bool {
    let lines: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    base64::engine::general_purpose::STANDARD.decode(lines).is_ok()
}

fn is_date(text: &str) -> bool {
    let has_form = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    has_form && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

/// Thirty-two digits in groups of 8, 4, 4, 4 and 12, with or without a `-` between two groups.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    [8, 4, 4, 4, 12].into_iter().enumerate().all(|(group, length)| {
        if group > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(length) else {
            return false;
        };
        rest = after;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && (group < 4 || rest.is_empty())
    })
}
