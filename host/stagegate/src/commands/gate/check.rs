//! `stagegate gate check`: whether a host could load the component, and what the gate says of itself.

use std::io::{self, Write as _};

use serde_json::{Value, json};
use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::{self, Interface, wire};
use stagegate_sandbox::{Sandbox, SandboxOptions};

use super::{Outcome, Result, advice, file};
use crate::args::{Format, GateCheckArgs};

/// Compiles the component and has it describe itself, in the sandbox and within its limits.
///
/// # Errors
/// A file that cannot be read. A component that cannot be loaded is an answer: [`Outcome::Negative`], its cause on standard error
/// (in the object with `-o json`).
pub fn component(args: &GateCheckArgs) -> Result {
    let component = file::component(&args.file)?;
    let size = Size {
        bytes: component.len(),
        gzip: file::gzip(&component)?.len(),
        digest: Digest::of_bytes(&component),
    };
    let loaded = gate::inspect(&component).and_then(|interface| {
        let sandbox = Sandbox::new(SandboxOptions::default());
        Ok((interface, sandbox.load(&size.digest, &component)?))
    });
    let mut out = io::stdout();
    match (args.output, &loaded) {
        (Format::Json, loaded) => writeln!(out, "{}", json(&size, loaded))?,
        (Format::Text, Ok((interface, description))) => {
            out.write_all(text(&size, *interface, description).as_bytes())?
        }
        (Format::Text, Err(failure)) => {
            let mut message = format!("{} cannot be used as a gate: {failure}", args.file.display());
            match advice(failure.kind) {
                "" => {}
                advice => message = format!("{message}\nadvice: {advice}"),
            }
            writeln!(io::stderr(), "{message}")?;
        }
    }
    Ok(if loaded.is_ok() {
        Outcome::Success
    } else {
        Outcome::Negative
    })
}

/// What the bytes alone say.
struct Size {
    bytes: usize,
    gzip: usize,
    digest: Digest,
}

type Loaded = std::result::Result<(Interface, wire::Description), gate::Failure>;

/// `{"digest", "bytes", "gzipBytes", "world", "name", "version", "summary", "configSchema"}`, or in place of the last five
/// `"failure": {"kind", "message", "advice"}`. `configSchema` is the schema itself, not its text. As text that is fit for a
/// terminal, which the schema need not be.
fn json(size: &Size, loaded: &Loaded) -> String {
    let mut object = json!({
        "digest": format!("sha256:{}", size.digest),
        "bytes": size.bytes,
        "gzipBytes": size.gzip,
    });
    match loaded {
        Ok((interface, description)) => {
            object["world"] = world(*interface).into();
            object["name"] = description.name.as_str().into();
            object["version"] = description.version.as_str().into();
            object["summary"] = description.summary.as_str().into();
            object["configSchema"] = serde_json::from_str(&description.config_schema).unwrap_or(Value::Null);
        }
        Err(failure) => {
            object["failure"] = json!({
                "kind": failure.kind,
                "message": failure.message,
                "advice": advice(failure.kind),
            });
        }
    }
    gate::escaped(&object.to_string())
}

fn text(size: &Size, interface: Interface, description: &wire::Description) -> String {
    let schema: Value = serde_json::from_str(&description.config_schema).unwrap_or(Value::Null);
    let schema = gate::escaped(&schema.to_string());
    format!(
        "gate     {name} {version}\n         {summary}\nworld    {world}\ndigest   sha256:{digest}\nsize     {bytes} bytes, \
         {gzip} packed\nconfig   {schema}\n",
        name = description.name,
        version = description.version,
        summary = description.summary,
        world = world(interface),
        digest = size.digest,
        bytes = size.bytes,
        gzip = size.gzip,
    )
}

/// As wit/gate.wit names them.
const fn world(interface: Interface) -> &'static str {
    match interface {
        Interface::Typed => "gate-world",
        Interface::Json => "gate-json-world",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_reaches_a_terminal_without_what_controls_it() {
        let size = Size {
            bytes: 1,
            gzip: 1,
            digest: Digest::of_bytes(b"x"),
        };
        let schema = json!({"title": "\u{9b}2J\u{7f}\u{202e}"});
        let description = wire::Description {
            name: "n".to_owned(),
            version: "1".to_owned(),
            summary: String::new(),
            config_schema: schema.to_string(),
        };
        let shown = text(&size, Interface::Json, &description);
        assert!(shown.contains(r"\u009b2J\u007f\u202e"), "{shown:?}");
        let shown = json(&size, &Ok((Interface::Json, description)));
        let unfit = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!shown.contains(unfit), "{shown:?}");
        let read: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["configSchema"], schema);
    }
}
