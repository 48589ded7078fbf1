//! Names and versions that Kubernetes objects have, each as a type of its own, so that none can be passed where another one is
//! meant. Must not judge what a text looks like.
//!
//! Each type owns its text (`Uid`) or borrows it (`Uid<&str>`): stored objects hold plain strings, and whoever only looks at
//! them copies none. Serde reads and writes the text alone.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$attribute:meta])* $name:ident;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name<T = String>(T);

        impl<'a> $name<&'a str> {
            /// Borrows the text, whatever it looks like.
            pub const fn of(text: &'a str) -> Self {
                Self(text)
            }

            /// The text, which may outlive this value.
            pub const fn text(self) -> &'a str {
                self.0
            }
        }

        impl<T: AsRef<str>> $name<T> {
            /// As Kubernetes has it.
            pub fn as_str(&self) -> &str {
                self.0.as_ref()
            }

            /// Whether there is no text; what an API server stores always has one.
            pub fn is_empty(&self) -> bool {
                self.as_str().is_empty()
            }

            /// The same, borrowed.
            pub fn borrowed(&self) -> $name<&str> {
                $name(self.as_str())
            }

            /// The same with a text of its own.
            pub fn owned(&self) -> $name {
                $name(self.as_str().to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<T: AsRef<str>> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}

names! {
    /// `metadata.uid`: an object that is made anew under the same name has another one.
    Uid;
    /// A cluster by its inventory name.
    #[derive(PartialOrd, Ord)]
    ClusterName;
    /// A stage by its name in the policy's spec.
    #[derive(PartialOrd, Ord)]
    StageName;
    /// `metadata.resourceVersion`, or that of a list. It has no order of its own: see [`ResourceVersion::is_newer_than`].
    ResourceVersion;
}

impl<T: AsRef<str>> ResourceVersion<T> {
    /// Whether this version is newer than the other. Both must be of one kind: versions of a kind are integers that grow with
    /// every write, wherever etcd stores them (KEP-5504). `None`: one of the two is no integer, so nobody knows, and whoever
    /// needs a newer version has none.
    ///
    /// ```
    /// use stagegate_api::ResourceVersion;
    ///
    /// let is_newer = |a, b| ResourceVersion::of(a).is_newer_than(&ResourceVersion::of(b));
    /// assert_eq!(is_newer("10", "9"), Some(true));
    /// assert_eq!(is_newer("9", "9"), Some(false));
    /// assert_eq!(is_newer("10", ""), None);
    /// ```
    pub fn is_newer_than<U: AsRef<str>>(&self, other: &ResourceVersion<U>) -> Option<bool> {
        Some(self.number()? > other.number()?)
    }

    /// The integer that it is, up to 128 bits; `None`: it is no such integer, and orders nothing.
    pub fn number(&self) -> Option<u128> {
        self.as_str().parse().ok()
    }
}
