//! What tells that sled lost something without a word.
//!
//! Where a page in the middle of its file is damaged, sled may take all that follows for a torn
//! tail, or go on without that page: a log is then shorter, and its head record is as old as its
//! last entry. So every group that is written also writes a tally: how many groups there were, and
//! a sum over all head records. A log that was set back no longer fits the sum; a store that was
//! set back as a whole has fewer groups than the file beside it says were synced.

use super::engine::{Engine, damaged};
use super::frame::{self, Change, Span};
use super::keys;
use crate::log::ConversationId;
use crate::store::StoreError;

/// The state of a store, in a few bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    /// Groups written since the store was made.
    pub(super) groups: u64,
    /// Exclusive or over a digest of every head record.
    heads: u128,
}

impl Tally {
    /// After one more group.
    pub(super) fn counted(self) -> Self {
        Self {
            groups: self.groups.saturating_add(1),
            ..self
        }
    }

    /// With a head record in the place of an earlier one.
    pub(super) fn moved(self, owner: ConversationId, from: Option<Span>, to: Span) -> Self {
        let from = from.map_or(0, |span| digest(owner, span));
        Self {
            heads: self.heads ^ from ^ digest(owner, to),
            ..self
        }
    }

    pub(super) fn change(self) -> Change {
        let key = vec![keys::TALLY];
        let value = self.seal(&key);
        (key, Some(value))
    }

    fn body(self) -> Vec<u8> {
        let mut body = self.groups.to_be_bytes().to_vec();
        body.extend(self.heads.to_be_bytes());
        body
    }

    /// Its bytes, with a checksum that also covers where they stand.
    fn seal(self, place: &[u8]) -> Vec<u8> {
        frame::seal(place, self.body())
    }

    fn read(body: &[u8]) -> Option<(Self, &[u8])> {
        let (groups, rest) = body.split_first_chunk::<8>()?;
        let (heads, rest) = rest.split_first_chunk::<16>()?;
        let tally = Self {
            groups: u64::from_be_bytes(*groups),
            heads: u128::from_be_bytes(*heads),
        };
        Some((tally, rest))
    }
}

/// What was synced, as the file beside sled tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Synced {
    pub(super) tally: Tally,
    /// The journal's newest group.
    pub(super) group: u64,
    /// Whether the journal holds something that the tree has not.
    pub(super) journal: bool,
}

impl Synced {
    pub(super) fn seal(self, place: &[u8]) -> Vec<u8> {
        let mut body = self.tally.body();
        body.extend(self.group.to_be_bytes());
        body.push(u8::from(self.journal));
        frame::seal(place, body)
    }

    pub(super) fn unseal(place: &[u8], bytes: &[u8]) -> Option<Self> {
        let (tally, rest) = Tally::read(frame::unseal(place, bytes)?)?;
        let (group, rest) = rest.split_first_chunk::<8>()?;
        let [journal] = keys::array(rest)?;
        Some(Self {
            tally,
            group: u64::from_be_bytes(*group),
            journal: journal != 0,
        })
    }
}

fn written(engine: &Engine) -> Result<Option<Tally>, StoreError> {
    let key = [keys::TALLY];
    let value = engine.value(&key)?;
    let read = |value: &[u8]| {
        let (tally, rest) = Tally::read(frame::unseal(&key, value)?)?;
        rest.is_empty().then_some(tally)
    };
    Ok(value.as_deref().and_then(read))
}

fn digest(owner: ConversationId, span: Span) -> u128 {
    let (_, value) = frame::write_span(keys::head(owner), span);
    let hash = blake3::hash(&[&owner.0[..], &value.unwrap_or_default()].concat());
    hash.as_bytes()
        .first_chunk()
        .map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

/// The tally in the tree, compared with the one that was last synced.
pub(super) fn newest(engine: &Engine, synced: Option<Tally>) -> Result<Tally, StoreError> {
    let missing = || damaged("the tally of the store is missing or damaged".into());
    let tally = written(engine)?.ok_or_else(missing)?;
    let lost = synced.and_then(|synced| synced.groups.checked_sub(tally.groups));
    if let Some(lost) = lost.filter(|lost| *lost > 0) {
        return Err(damaged(format!(
            "the newest {lost} of the writes that were synced are gone: sled took damage in its \
             file for the file's end"
        )));
    }
    Ok(tally)
}

/// The same, compared with what is there as well.
pub(super) fn verify(engine: &Engine, synced: Option<Tally>) -> Result<Tally, StoreError> {
    let tally = newest(engine, synced)?;
    match count(engine)? {
        Some(heads) if heads != tally.heads => Err(damaged(
            "the head records are not those that were last written: sled lost a page, and at \
             least one log is older than it was"
                .into(),
        )),
        _ => Ok(tally),
    }
}

/// The sum over all head records; `None` where one is damaged, which reading it will tell.
fn count(engine: &Engine) -> Result<Option<u128>, StoreError> {
    let mut sum = Tally::default();
    for found in engine.scan(&[keys::HEAD], &keys::after(&[keys::HEAD]))? {
        let (key, value) = found?;
        let span = keys::owner(&key).zip(frame::read_span(&key, &value));
        let Some((owner, span)) = span else {
            return Ok(None);
        };
        sum = sum.moved(owner, None, span);
    }
    Ok(Some(sum.heads))
}
