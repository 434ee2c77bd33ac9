//! The keys of the one tree. Integers are big-endian, so that keys sort as what they name.
//!
//! | key | value |
//! | --- | --- |
//! | `L` conversation seq | content: the entry with its table of payloads and the small ones |
//! | `P` conversation seq index | content: salt and bytes of a payload that did not fit |
//! | `B` lineage address | content: a blob |
//! | `D` conversation length name | content: derived data |
//! | `H` conversation | first seq, head seq, head hash |
//! | `N` (1 length segment)* 0 length name | conversation |
//! | `M` | `ctxlog 1`: says that creation was finished |
//! | `T` | the tally: number of groups, sum of the head records |
//!
//! A content lies under its key and, where it is longer than one value, continues under the key
//! with a chunk number (u32, from 1) behind it.

use crate::log::{ConversationId, Hash, Seq};
use crate::store::Name;

pub(super) const LOG: u8 = b'L';
pub(super) const PAYLOAD: u8 = b'P';
pub(super) const BLOB: u8 = b'B';
pub(super) const DERIVED: u8 = b'D';
pub(super) const HEAD: u8 = b'H';
pub(super) const NAME: u8 = b'N';
pub(super) const MADE: u8 = b'M';
pub(super) const TALLY: u8 = b'T';

const SEGMENT: u8 = 1;
const LAST: u8 = 0;
/// Tag and conversation.
const OWNER: usize = 17;

/// Everything of one kind that belongs to a conversation.
pub(super) fn owned(tag: u8, conversation: ConversationId) -> Vec<u8> {
    let mut key = vec![tag];
    key.extend(conversation.0);
    key
}

pub(super) fn head(conversation: ConversationId) -> Vec<u8> {
    owned(HEAD, conversation)
}

pub(super) fn entry(conversation: ConversationId, seq: Seq) -> Vec<u8> {
    let mut key = owned(LOG, conversation);
    key.extend(seq.0.to_be_bytes());
    key
}

pub(super) fn payload(conversation: ConversationId, seq: Seq, index: u32) -> Vec<u8> {
    let mut key = owned(PAYLOAD, conversation);
    key.extend(seq.0.to_be_bytes());
    key.extend(index.to_be_bytes());
    key
}

pub(super) fn blob(lineage: ConversationId, address: Hash) -> Vec<u8> {
    let mut key = owned(BLOB, lineage);
    key.extend(address.0);
    key
}

pub(super) fn derived(conversation: ConversationId, name: &str) -> Vec<u8> {
    let mut key = owned(DERIVED, conversation);
    push_text(&mut key, name);
    key
}

/// What the keys of all derived data begin with whose names begin with `prefix` and are of this
/// length.
pub(super) fn derived_of(conversation: ConversationId, prefix: &str, length: usize) -> Vec<u8> {
    let mut key = owned(DERIVED, conversation);
    key.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    key.extend(prefix.as_bytes());
    key
}

/// The name in the key of derived data.
pub(super) fn derived_name(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(OWNER + 4..)?).ok()
}

/// Lengths before texts: no namespace can look like another, whatever its characters.
pub(super) fn namespace(segments: &[String]) -> Vec<u8> {
    let mut key = vec![NAME];
    for segment in segments {
        key.push(SEGMENT);
        push_text(&mut key, segment);
    }
    key
}

pub(super) fn name(name: &Name) -> Vec<u8> {
    let mut key = namespace(&name.namespace);
    key.push(LAST);
    push_text(&mut key, &name.name);
    key
}

/// Texts are bounded far below 4 GiB before they come here.
fn push_text(key: &mut Vec<u8>, text: &str) {
    key.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    key.extend(text.as_bytes());
}

pub(super) fn chunk(base: &[u8], number: u32) -> Vec<u8> {
    let mut key = base.to_vec();
    if number > 0 {
        key.extend(number.to_be_bytes());
    }
    key
}

/// The smallest key greater than every key that begins with `prefix`.
pub(super) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if let Some(next) = last.checked_add(1) {
            key.push(next);
            return key;
        }
    }
    vec![u8::MAX; OWNER]
}

/// The conversation in a key of any kind but `N`, `M` and `T`.
pub(super) fn owner(key: &[u8]) -> Option<ConversationId> {
    array(key.get(1..OWNER)?).map(ConversationId)
}

/// The seq in the key of an entry or payload.
pub(super) fn seq(key: &[u8]) -> Option<Seq> {
    array(key.get(OWNER..OWNER + 8)?).map(|bytes| Seq(u64::from_be_bytes(bytes)))
}

/// The payload number in the key of a payload.
pub(super) fn index(key: &[u8]) -> Option<u32> {
    array(key.get(OWNER + 8..OWNER + 12)?).map(u32::from_be_bytes)
}

/// The address in the key of a blob.
pub(super) fn address(key: &[u8]) -> Option<Hash> {
    array(key.get(OWNER..OWNER + 32)?).map(Hash)
}

/// The key of the content that this key belongs to, and the chunk number within it. `None`: no
/// key of a content.
pub(super) fn content(key: &[u8]) -> Option<(&[u8], u32)> {
    let length = match *key.first()? {
        LOG => OWNER + 8,
        PAYLOAD => OWNER + 12,
        BLOB => OWNER + 32,
        DERIVED => {
            let name = u32::from_be_bytes(array(key.get(OWNER..OWNER + 4)?)?);
            usize::try_from(name).ok()?.checked_add(OWNER + 4)?
        }
        _ => return None,
    };
    let (base, rest) = key.split_at_checked(length)?;
    match rest.len() {
        0 => Some((base, 0)),
        4 => Some((base, u32::from_be_bytes(array(rest)?))),
        _ => None,
    }
}

/// The name in an `N` key.
pub(super) fn read_name(key: &[u8]) -> Option<Name> {
    let mut rest = key.strip_prefix(&[NAME])?;
    let mut namespace = Vec::new();
    loop {
        let (tag, behind) = rest.split_first()?;
        let (length, behind) = behind.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (text, behind) = behind.split_at_checked(length)?;
        let text = std::str::from_utf8(text).ok()?.to_owned();
        match (*tag, behind.is_empty()) {
            (SEGMENT, _) => namespace.push(text),
            (LAST, true) => {
                return Some(Name {
                    namespace,
                    name: text,
                });
            }
            _ => return None,
        }
        rest = behind;
    }
}

/// A slice of exactly this length.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Name> {
        let text = prop_oneof![".{0,4}", "[\\x00\\x01/]{0,4}"];
        (prop::collection::vec(text.clone(), 0..4), text)
            .prop_map(|(namespace, name)| Name { namespace, name })
    }

    proptest! {
        #[test]
        fn a_name_is_read_back_from_its_key(given in names()) {
            prop_assert_eq!(read_name(&name(&given)), Some(given));
        }

        #[test]
        fn a_namespace_prefixes_exactly_the_names_inside_it(
            given in names(), prefix in prop::collection::vec("[ab]{0,2}", 0..3)
        ) {
            let inside = given.namespace.starts_with(&prefix);
            prop_assert_eq!(name(&given).starts_with(&namespace(&prefix)), inside);
        }

        #[test]
        fn what_follows_a_prefix_is_above_all_its_keys(
            prefix in prop::collection::vec(any::<u8>(), 1..20).prop_map(|mut p| { p[0] = LOG; p }),
            rest in prop::collection::vec(any::<u8>(), 0..9)
        ) {
            let key: Vec<u8> = prefix.iter().chain(&rest).copied().collect();
            prop_assert!(key < after(&prefix));
            prop_assert!(!after(&prefix).starts_with(&prefix));
        }

        #[test]
        fn no_bytes_make_key_readers_panic(key in prop::collection::vec(any::<u8>(), 0..60)) {
            for tag in [BLOB, DERIVED, HEAD, LOG, MADE, NAME, PAYLOAD, TALLY] {
                let key: Vec<u8> = std::iter::once(tag).chain(key.iter().copied()).collect();
                let _ = (content(&key), read_name(&key), owner(&key), seq(&key), index(&key));
            }
        }
    }
}
