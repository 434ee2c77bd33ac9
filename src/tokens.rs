//! Token counts of text, offline.

use crate::log::Count;

/// A tokenizer's encoding whose tables are at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// Of `gpt-4o` and what came after it; stands in for models that are not known.
    #[default]
    O200kBase,
    /// Of `gpt-4`, `gpt-3.5-turbo` and the embedding models of their time.
    Cl100kBase,
}

/// What the names of models begin with that take `cl100k_base`, and what of those do not.
const CL100K: (&[&str], &[&str]) = (
    &[
        "gpt-4",
        "gpt-3.5",
        "gpt-35",
        "text-embedding-",
        "davinci-002",
        "babbage-002",
    ],
    &["gpt-4o", "gpt-4.1", "gpt-4.5"],
);

impl Encoding {
    /// The encoding of a model, by its name; the newest where it is not known.
    #[must_use]
    pub fn of(model: Option<&str>) -> Self {
        // `openai/gpt-4`, `ft:gpt-4:…`
        let name = model.and_then(|m| m.rsplit('/').next()).unwrap_or_default();
        let name = name.strip_prefix("ft:").unwrap_or(name);
        let begins = |with: &[&str]| with.iter().any(|prefix| name.starts_with(prefix));
        if begins(CL100K.0) && !begins(CL100K.1) {
            Self::Cl100kBase
        } else {
            Self::O200kBase
        }
    }

    /// The method of its counts.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::O200kBase => crate::window::TIKTOKEN,
            Self::Cl100kBase => "tiktoken:cl100k_base",
        }
    }

    /// The encoding whose counts name this method; `None` where a method is another's.
    #[must_use]
    pub fn of_method(method: &str) -> Option<Self> {
        let all = [Self::O200kBase, Self::Cl100kBase];
        all.into_iter().find(|by| by.method() == method)
    }

    /// Counts the tokens of a text, where the `tiktoken` feature is on.
    #[must_use]
    pub fn count(self, text: &str) -> Option<Count> {
        #[cfg(feature = "tiktoken")]
        {
            let tables = match self {
                Self::O200kBase => bpe_openai::o200k_base(),
                Self::Cl100kBase => bpe_openai::cl100k_base(),
            };
            let amount = u64::try_from(tables.count(text)).unwrap_or(u64::MAX);
            Some(Count {
                method: self.method().to_owned(),
                amount,
            })
        }
        #[cfg(not(feature = "tiktoken"))]
        {
            let _ = text;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Encoding::{self, Cl100kBase, O200kBase};

    #[test]
    fn an_encoding_is_known_by_its_method() {
        for encoding in [O200kBase, Cl100kBase] {
            assert_eq!(Encoding::of_method(encoding.method()), Some(encoding));
        }
        assert_eq!(Encoding::of_method(crate::window::ESTIMATE), None);
    }

    #[test]
    fn a_model_is_known_by_how_its_name_begins() {
        let of = |name| Encoding::of(Some(name));
        for name in [
            "gpt-4",
            "gpt-4-0613",
            "openai/gpt-4-turbo",
            "gpt-3.5-turbo",
            "ft:gpt-4:acme",
        ] {
            assert_eq!(of(name), Cl100kBase, "{name}");
        }
        for name in [
            "gpt-4o",
            "gpt-4.1-mini",
            "gpt-5",
            "o3",
            "claude-sonnet-4",
            "",
            "x/gpt-4o-mini",
        ] {
            assert_eq!(of(name), O200kBase, "{name}");
        }
        assert_eq!(Encoding::of(None), O200kBase);
    }
}
