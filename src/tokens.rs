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

/// Counts a text by the best method this build has, labelled.
#[must_use]
pub fn count_or_estimate(text: &str) -> Count {
    count(text).unwrap_or_else(|| Count {
        method: crate::window::ESTIMATE.to_owned(),
        amount: u64::try_from(text.encode_utf16().count())
            .unwrap_or(u64::MAX)
            .div_ceil(4),
    })
}
