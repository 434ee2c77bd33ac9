//! Keys of blocks that are written ahead of their values.
//!
//! sled writes a leaf of its tree anew, with all that is in it, when the leaf is split and after ten
//! changes. So the keys of many blocks come first, with values that stand for nothing: then leaves are
//! split while they are small, and each block is written about once. A value that stands for nothing is
//! always behind its log's head, where nobody looks; one more value names the logs that have such, so that
//! the next open takes back what a crash leaves of them.

use super::engine::{Engine, damaged};
use super::frame::{self, Change};
use super::keys;
use super::tail;
use crate::log::{ConversationId, Seq};
use crate::store::StoreError;

/// The value of a key that is ahead of its block: an empty body, which no content has.
pub(super) fn value(key: &[u8]) -> Vec<u8> {
    frame::seal(key, Vec::new())
}

/// Whether a key is ahead of its block.
pub(super) fn is(key: &[u8], value: &[u8]) -> bool {
    value.len() == frame::CRC_BYTES && frame::unseal(key, value).is_some()
}

/// Says of which logs keys are ahead.
pub(super) fn note(owners: &[ConversationId]) -> Change {
    let key = vec![keys::RESERVED];
    let body = owners.iter().flat_map(|owner| owner.0).collect();
    let value = frame::seal(&key, body);
    (key, Some(value))
}

/// Says that no keys are ahead any more.
pub(super) fn none() -> Change {
    (vec![keys::RESERVED], None)
}

/// Takes back the keys that a crash left ahead of their blocks. The tally stays as it is: were this
/// counted, it could stand for a group that is missing.
pub(super) fn take_back(engine: &Engine) -> Result<(), StoreError> {
    let key = [keys::RESERVED];
    let Some(value) = engine.value(&key)? else {
        return Ok(());
    };
    let reason = || damaged("the record of keys that are ahead of their blocks is damaged".into());
    let owners = frame::unseal(&key, &value).ok_or_else(reason)?;
    let mut changes = vec![none()];
    for owner in owners.chunks(16) {
        let owner = ConversationId(keys::array(owner).ok_or_else(reason)?);
        let head = tail::read_span(engine, owner)?.map(|span| span.head.seq);
        let from = keys::block(owner, head.map_or(Seq(0), Seq::next));
        let end = keys::after(&keys::owned(keys::BLOCK, owner));
        for found in engine.scan(&from, &end)? {
            let (key, value) = found?;
            if is(&key, &value) {
                changes.push((key.to_vec(), None));
            }
        }
    }
    engine.apply(changes)?;
    engine.sync()
}
