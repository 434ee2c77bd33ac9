//! Closed sets of names with stable codes.

/// Makes a closed set: an enum whose members have a stored code, never reused, and a shown name.
/// serde writes the code where bytes are stored and the name where people and tools read.
macro_rules! codes {
    ($(#[$doc:meta])* $set:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal, $name:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $set { $($(#[$vdoc])* $variant,)+ }

        impl $set {
            /// Every member, in the set's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stored code; never reused.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The member with this code.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The name people and tools see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.serialize_str(self.name()) } else { s.serialize_u8(self.code()) }
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let wrong = |what: String| serde::de::Error::custom(format!("{what} is no {}", stringify!($set)));
                if d.is_human_readable() {
                    let name = <String as serde::Deserialize>::deserialize(d)?;
                    Self::ALL.iter().copied().find(|m| m.name() == name).ok_or_else(|| wrong(name))
                } else {
                    let code = <u8 as serde::Deserialize>::deserialize(d)?;
                    Self::from_code(code).ok_or_else(|| wrong(code.to_string()))
                }
            }
        }
    };
}

pub(super) use codes;
