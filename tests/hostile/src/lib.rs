//! A gate for tests. Its config `{"do": MODE}` names what it does: misbehave, probe the sandbox, or answer something
//! plain. It answers through the raw bindings, since the builders of the SDK do not let wrong verdicts through. Must
//! never be deployed.

#![cfg(target_family = "wasm")]

mod abuse;
mod echo;
mod probe;

use serde_json::Value;
use stagegate_guest::bindings::exports::stagegate::gate::gate::Guest;
use stagegate_guest::bindings::stagegate::gate::types::{
    Decision, Description, EvidencePiece, Fail, Hold, Pass, Request, Verdict,
};

struct Hostile;

stagegate_guest::bindings::export!(Hostile with_types_in stagegate_guest::bindings);

const MODES: &[&str] = &[
    "loop",
    "trap",
    "panic",
    "grow",
    "grow-double",
    "stack",
    "answer-10mb",
    "many-pieces",
    "empty-reason",
    "error",
    "sleep",
    "sleep-std",
    "exit",
    "file",
    "socket",
    "env",
    "random",
    "clock",
    "log-flood",
    "stdout-flood",
    "hold",
    "fail",
    "pass",
    "pass-echo",
];

impl Guest for Hostile {
    fn describe() -> Description {
        Description {
            name: "hostile".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: "Misbehaves in the way that its config names; for tests only".to_owned(),
            config_schema: serde_json::json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "required": ["do"],
                "properties": {"do": {"type": "string"}},
            })
            .to_string(),
        }
    }

    fn evaluate(request: Request) -> Result<Verdict, String> {
        let config: Value = serde_json::from_str(&request.config).map_err(|error| format!("config: {error}"))?;
        let mode = config["do"].as_str().ok_or("config: `do` is no text")?;
        match mode {
            "loop" => abuse::loop_for_ever(),
            "trap" => abuse::trap(),
            "panic" => panic!("the gate panics as it was told"),
            "grow" => abuse::grow(),
            "grow-double" => abuse::grow_double(),
            "stack" => abuse::stack(),
            "exit" => std::process::exit(3),
            "sleep" => abuse::sleep_for_an_hour(),
            "sleep-std" => std::thread::sleep(std::time::Duration::from_secs(3600)),
            "log-flood" => abuse::log_flood(),
            "stdout-flood" => abuse::stdout_flood(),
            "answer-10mb" => return Ok(hold("x".repeat(10_000_000))),
            "many-pieces" => {
                return Ok(with(
                    pass(None),
                    (0..100_000).map(|i| (format!("piece-{i}"), String::new())),
                ));
            }
            "empty-reason" => return Ok(hold(String::new())),
            "error" => return Err("the gate could not judge, as it was told".to_owned()),
            "file" => return Ok(with(pass(None), probe::files())),
            "socket" => return Ok(with(pass(None), probe::sockets())),
            "env" => return Ok(with(pass(None), probe::environment())),
            "random" => return Ok(with(pass(None), probe::randomness())),
            "clock" => return Ok(with(pass(None), probe::clocks())),
            "hold" => return Ok(hold(text(&config, "reason", "held as it was told"))),
            "fail" => {
                let reason = text(&config, "reason", "failed as it was told");
                return Ok(verdict(Decision::Fail(Fail { reason })));
            }
            "pass" => return Ok(pass(config["validForMs"].as_u64())),
            "pass-echo" => return Ok(with(pass(None), echo::pieces(&request))),
            _ => return Err(format!("config: `do` is none of {}", MODES.join(", "))),
        }
        // What was to bring the gate down let it go on: tests see which one it was.
        Ok(with(pass(None), [("survived".to_owned(), mode.to_owned())]))
    }
}

fn text(config: &Value, member: &str, otherwise: &str) -> String {
    config[member].as_str().unwrap_or(otherwise).to_owned()
}

fn pass(valid_for_ms: Option<u64>) -> Verdict {
    verdict(Decision::Pass(Pass { valid_for_ms }))
}

fn hold(reason: String) -> Verdict {
    verdict(Decision::Hold(Hold {
        reason,
        retry_after_ms: None,
    }))
}

fn verdict(decision: Decision) -> Verdict {
    Verdict {
        decision,
        evidence: Vec::new(),
    }
}

fn with(mut verdict: Verdict, pieces: impl IntoIterator<Item = (String, String)>) -> Verdict {
    verdict
        .evidence
        .extend(pieces.into_iter().map(|(name, value)| EvidencePiece { name, value }));
    verdict
}
