//! The keys of the one tree. Integers are big-endian, so that keys sort as what they name.
//!
//! | key | value |
//! | --- | --- |
//! | `C` conversation seq | content: a block, records of consecutive entries from this one on |
//! | `D` conversation length name | content: derived data |
//! | `E` number | fence |
//! | `H` conversation | first seq, head seq, head hash |
//! | `I` number | fence |
//! | `M` | `ctxlog 3`: says that creation was finished |
//! | `N` (1 length segment)* 0 length name | conversation |
//! | `R` | the logs of which keys of blocks are ahead of their values |
//! | `T` | the tally: number of groups, sum of the head records |
//!
//! A content lies under its key and, where it is longer than one value, continues under the key
//! with a chunk number (u32, from 1) behind it.
//!
//! A fence is sixteen keys with empty values, numbered by a byte. sled writes a leaf anew after ten
//! changes, and a leaf has at most sixteen keys: what changes often (heads, the tally) is fenced off, so
//! that it never shares a leaf with large values, which would be written again and again.

use crate::log::{ConversationId, Hash, Seq};
use crate::store::Name;

pub(super) const BLOCK: u8 = b'C';
/// No key of the tree begins so: it stands for the key of a file.
const BLOB: u8 = b'B';
pub(super) const DERIVED: u8 = b'D';
pub(super) const HEAD: u8 = b'H';
pub(super) const NAME: u8 = b'N';
pub(super) const MADE: u8 = b'M';
/// The key of what is written while the keys of blocks are ahead of their values.
pub(super) const RESERVED: u8 = b'R';
pub(super) const TALLY: u8 = b'T';

/// What begins the keys of each fence.
const FENCES: [u8; 2] = [b'E', b'I'];
/// As many keys as sled puts into one leaf.
const FENCE_KEYS: u8 = 16;

/// The keys of all fences.
pub(super) fn fences() -> impl Iterator<Item = [u8; 2]> {
    let numbered = |tag| (0..FENCE_KEYS).map(move |number| [tag, number]);
    FENCES.into_iter().flat_map(numbered)
}

/// Whether this is the key of a fence.
pub(super) fn is_fence(key: &[u8]) -> bool {
    matches!(key, [tag, number] if FENCES.contains(tag) && *number < FENCE_KEYS)
}

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

pub(super) fn block(conversation: ConversationId, first: Seq) -> Vec<u8> {
    let mut key = owned(BLOCK, conversation);
    key.extend(first.0.to_be_bytes());
    key
}

/// What the checksum of a blob's file covers beside it.
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

/// The first seq in the key of a block.
pub(super) fn seq(key: &[u8]) -> Option<Seq> {
    array(key.get(OWNER..OWNER + 8)?).map(|bytes| Seq(u64::from_be_bytes(bytes)))
}

/// The key of the content that this key belongs to, and the chunk number within it. `None`: no
/// key of a content.
pub(super) fn content(key: &[u8]) -> Option<(&[u8], u32)> {
    let length = match *key.first()? {
        BLOCK => OWNER + 8,
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
            prefix in prop::collection::vec(any::<u8>(), 1..20).prop_map(|mut p| { p[0] = BLOCK; p }),
            rest in prop::collection::vec(any::<u8>(), 0..9)
        ) {
            let key: Vec<u8> = prefix.iter().chain(&rest).copied().collect();
            prop_assert!(key < after(&prefix));
            prop_assert!(!after(&prefix).starts_with(&prefix));
        }

        #[test]
        fn no_bytes_make_key_readers_panic(key in prop::collection::vec(any::<u8>(), 0..60)) {
            for tag in [BLOCK, DERIVED, HEAD, MADE, NAME, TALLY] {
                let key: Vec<u8> = std::iter::once(tag).chain(key.iter().copied()).collect();
                let _ = (content(&key), read_name(&key), owner(&key), seq(&key));
            }
        }
    }
}
