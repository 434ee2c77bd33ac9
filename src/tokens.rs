//! Token counts of text, offline.

use crate::log::Count;

/// Counts the `o200k_base` tokens of a text, where the `tiktoken` feature is on.
#[must_use]
pub fn count(text: &str) -> Option<Count> {
    #[cfg(feature = "tiktoken")]
    {
        let tokens = bpe_openai::o200k_base().count(text);
        let amount = u64::try_from(tokens).unwrap_or(u64::MAX);
        Some(Count {
            method: crate::window::TIKTOKEN.to_owned(),
            amount,
        })
    }
    #[cfg(not(feature = "tiktoken"))]
    {
        let _ = text;
        None
    }
}
