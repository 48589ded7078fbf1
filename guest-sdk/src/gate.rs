//! What a gate is to the SDK, and how it becomes the exports of a component.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::bindings::stagegate::gate::types as wit;
use crate::{Error, Request, Verdict};

/// A gate is the type of its config: a value of it is one call. [`crate::export`] makes a component of it.
///
/// With `deny_unknown_fields` a misspelt member of the config is refused before a rollout starts, and not overlooked.
pub trait Gate: DeserializeOwned + JsonSchema {
    /// What the gate is called, for example `min-available`.
    const NAME: &'static str;
    /// The gate's own version, for example `1.2.0`.
    const VERSION: &'static str;
    /// One line.
    const SUMMARY: &'static str;

    /// Judges. The same request must give the same verdict.
    ///
    /// # Errors
    /// The gate could not judge; see [`Error`].
    fn evaluate(&self, request: &Request) -> Result<Verdict, Error>;
}

/// Makes the component's exports of a [`Gate`]. Once in a crate; does nothing in native builds.
///
/// `export!(MyGate)` derives the schema of the config when the component is asked.
/// `export!(MyGate, schema: "../config.schema.json")` takes it from a file beside the source: a small component is less
/// than half as large then. A test keeps the file fresh by `harness::schema_is_fresh`.
#[macro_export]
macro_rules! export {
    ($gate:ty) => {
        $crate::export!(@ $gate, $crate::derived_schema::<$gate>().to_string());
    };
    ($gate:ty, schema: $file:literal) => {
        $crate::export!(@ $gate, ::std::string::String::from(::core::include_str!($file)));
    };
    (@ $gate:ty, $schema:expr) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::bindings::exports::stagegate::gate::gate::Guest for Exported {
                fn describe() -> $crate::bindings::stagegate::gate::types::Description {
                    $crate::describe::<$gate>($schema)
                }

                fn evaluate(
                    request: $crate::Request,
                ) -> ::core::result::Result<$crate::bindings::stagegate::gate::types::Verdict, ::std::string::String>
                {
                    $crate::evaluate::<$gate>(&request).map_err(|error| error.to_string())
                }
            }

            $crate::bindings::export!(Exported with_types_in $crate::bindings);
        };
    };
}

/// What the component's `describe` answers.
pub fn describe<G: Gate>(config_schema: String) -> wit::Description {
    wit::Description {
        name: G::NAME.to_owned(),
        version: G::VERSION.to_owned(),
        summary: G::SUMMARY.to_owned(),
        config_schema,
    }
}

/// The schema of the config, as its type says.
pub fn derived_schema<G: Gate>() -> serde_json::Value {
    schemars::schema_for!(G).to_value()
}

/// What the component's `evaluate` answers.
///
/// # Errors
/// The config does not fit the gate, the host contradicts itself, or the gate could not judge.
pub fn evaluate<G: Gate>(request: &Request) -> Result<wit::Verdict, Error> {
    // A gate that goes through the destinations must not miss one.
    if request.destinations.iter().count() != request.destinations.len() {
        return Err(Error::new("the names of the destinations cannot be told apart"));
    }
    let gate: G = crate::config::read(&request.config)
        .map_err(|misfit| Error::new(format_args!("reading the config: {misfit}")))?;
    gate.evaluate(request)?.hand_over()
}
