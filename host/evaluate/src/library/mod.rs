//! The functions an expression may call, and what is known about each of them before anything runs: its name and how many
//! arguments it takes. The engine does not list its overloads, so they stand here again ([`tables`]).

mod tables;

use crate::{charged, extended, text};
use cel::{Env, extensions};
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use tables::Table;

/// Which functions and macros an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The language with its `strings` and `lists` extensions and optionals. An expression that is also evaluated elsewhere, by
    /// a plain implementation of the language, needs no more.
    Standard,
    /// Besides these, the libraries that Kubernetes gives to admission policies, without the authorizer, and the language's
    /// extensions `math`, `base64`, `cel.bind` and two-variable comprehensions.
    Extended,
}

impl Library {
    /// What an expression is parsed and run with.
    pub(crate) fn env(self) -> &'static Arc<Env> {
        static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Library::Standard.new_env()));
        static EXTENDED: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Library::Extended.new_env()));
        match self {
            Library::Standard => &STANDARD,
            Library::Extended => &EXTENDED,
        }
    }

    pub(crate) fn new_env(self) -> Env {
        let mut env = Env::stdlib();
        let mut add = |extension: fn(&mut Env) -> Result<(), cel::DeclarationError>| {
            env.add_extension(extension)
                .expect("each library is added once, to a new environment");
        };
        add(extensions::strings);
        add(extensions::lists);
        add(charged::register);
        add(text::register);
        if self == Library::Extended {
            add(extensions::math);
            add(extensions::encoders);
            add(extended::register);
        }
        env
    }

    /// How many arguments the function `name` takes, if there is one. Qualified names count as functions: `lists.range`.
    pub(crate) fn function(self, name: &str) -> Option<RangeInclusive<usize>> {
        self.find(&[tables::FUNCTIONS, tables::EXTENDED_FUNCTIONS], name)
    }

    /// How many arguments besides its receiver the method `name` takes, if there is one.
    pub(crate) fn method(self, name: &str) -> Option<RangeInclusive<usize>> {
        self.find(&[tables::METHODS, tables::EXTENDED_METHODS], name)
    }

    /// Whether `name` is a macro. One that is still a call was not expanded, which happens for a wrong number of arguments.
    pub(crate) fn is_macro(self, name: &str) -> bool {
        self.macros().any(|known| known == name)
    }

    /// The functions, methods and macros that an expression may call.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let tables = [
            tables::FUNCTIONS,
            tables::METHODS,
            tables::EXTENDED_FUNCTIONS,
            tables::EXTENDED_METHODS,
        ];
        let known = self.known(&tables).map(|(name, _)| *name);
        known.chain(self.macros())
    }

    fn macros(self) -> impl Iterator<Item = &'static str> {
        let extended = match self {
            Library::Standard => &[],
            Library::Extended => tables::EXTENDED_MACROS,
        };
        tables::MACROS.iter().chain(extended).copied()
    }

    fn find(self, [standard, extended]: &[Table; 2], name: &str) -> Option<RangeInclusive<usize>> {
        self.known(&[standard, extended])
            .find(|(known, _)| *known == name)
            .map(|(_, arguments)| arguments.clone())
    }

    /// Of tables whose second half is that of the extended library.
    fn known<'t, const N: usize>(
        self,
        tables: &[&'t [(&'static str, RangeInclusive<usize>)]; N],
    ) -> impl Iterator<Item = &'t (&'static str, RangeInclusive<usize>)> + use<'t, N> {
        let count = match self {
            Library::Standard => N / 2,
            Library::Extended => N,
        };
        let tables = *tables;
        tables.into_iter().take(count).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Budget, compile_shaped};
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../../docs/conditions.md");

    /// The names of the section, with their examples.
    fn documented() -> Vec<(&'static str, &'static str)> {
        let (_, section) = PAGE.split_once("\n## Functions\n").expect("the page has the section");
        let section = section.split("\n## ").next().unwrap_or(section);
        let row = |line: &'static str| line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `");
        section.lines().filter_map(row).collect()
    }

    #[test]
    fn the_page_on_conditions_lists_the_functions_that_there_are() {
        let callable = |name: &&str| !name.starts_with('@') && !name.contains(".@");
        let known: BTreeSet<&str> = Library::Extended.names().filter(callable).collect();
        let listed: BTreeSet<&str> = documented().into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn every_example_of_the_page_calls_its_function_and_is_true() {
        for (name, example) in documented() {
            assert!(example.contains(&format!("{name}(")), "{example} does not call {name}");
            let compiled = compile_shaped(example, Vec::new(), Library::Extended);
            let compiled = compiled.unwrap_or_else(|error| panic!("{example}: {error}"));
            assert_eq!(
                compiled.eval(&[], Budget::default()),
                Ok(Answer::Bool(true)),
                "{example}"
            );
        }
    }

    #[test]
    fn the_standard_library_is_a_part_of_the_extended_one() {
        for name in Library::Standard.names() {
            assert!(Library::Extended.names().any(|known| known == name), "{name}");
        }
        assert!(Library::Standard.function("quantity").is_none());
        assert!(Library::Standard.method("sum").is_none());
        assert!(!Library::Standard.is_macro("cel.bind"));
    }
}
