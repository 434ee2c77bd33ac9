//! Consecutive records of one log, packed and compressed together.
//!
//! Codec of the heads, codec of the words, number of records, length of the heads, of the words, and of
//! the packed heads; then the heads and the words, as their codecs have them. The heads are each
//! record's head behind its length and that of its words; the words follow one another. Heads are mostly
//! hashes, words mostly text: apart, both shrink better. Hashes are over what entries hold, so that
//! blocks can be packed anew.

use std::sync::OnceLock;

use super::frame::length;
use super::record::Parts;
use crate::log::Seq;
use crate::store::BATCH_BYTES_MAX;

/// What a block holds, about, before it is compressed. A record that is larger has its own.
const BLOCK_BYTES: usize = 32 << 10;
/// The most that a block can hold: a batch of one record, with its salts and lengths.
const RAW_BYTES_MAX: u64 = BATCH_BYTES_MAX + (8 << 20);
/// Higher levels take their time for a hundredth of the size.
const ZSTD_LEVEL: i32 = 1;
/// How many bytes are not compressed after a block that shrank by less than an eighth.
const HOPELESS_BYTES: usize = 256 << 10;

/// The memory of our own that is kept, in bytes.
const SCRATCH_BYTES: usize = 64 << 10;

const STORED: u8 = 0;
const ZSTD: u8 = 1;
const NUMBER_BYTES: usize = 4;
/// The sizes of head and words, before each head.
const SIZES_BYTES: usize = 2 * NUMBER_BYTES;

/// The memory of heads and words.
pub(super) type Memory = [Vec<u8>; 2];

/// A block, unpacked; its words may be packed still.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Block {
    first: Seq,
    heads: Vec<u8>,
    words: OnceLock<Vec<u8>>,
    /// Codec and bytes of words that are not, or were not at first, unpacked.
    packed: Option<(u8, Vec<u8>)>,
    /// Where each record ends in `heads` and in `words`.
    ends: Vec<(usize, usize)>,
}

impl Block {
    /// Its first entry.
    pub(super) fn first(&self) -> Seq {
        self.first
    }

    /// The number behind its last entry.
    pub(super) fn end(&self) -> Seq {
        Seq(self
            .first
            .0
            .saturating_add(u64::from(length(self.ends.len()))))
    }

    /// Its size in memory, about, with its words.
    pub(super) fn bytes(&self) -> usize {
        let words = self.words.get().map_or(self.words_size(), Vec::capacity);
        let packed = self.packed.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let sizes = [words, packed].into_iter();
        sizes.fold(self.heads.capacity(), usize::saturating_add)
    }

    fn words_size(&self) -> usize {
        self.ends.last().map_or(0, |(_, words)| *words)
    }

    /// Unpacks the words, where they are not; `None` where they are no words of this block.
    pub(super) fn unpack_words(&self, codec: &mut Codec) -> Option<()> {
        if self.words.get().is_none() {
            let (kind, bytes) = self.packed.as_ref()?;
            let words = codec.expand(*kind, bytes, self.words_size())?;
            let _ = self.words.set(words); // another thread may have been faster
        }
        Some(())
    }

    /// The record of an entry, of a block whose words are unpacked.
    pub(super) fn record(&self, seq: Seq) -> Option<Parts<'_>> {
        self.at(self.index(seq)?)
    }

    /// The head of an entry's record, and how many bytes its words are.
    pub(super) fn head(&self, seq: Seq) -> Option<(&[u8], usize)> {
        let index = self.index(seq)?;
        let ([from, spoken], [head, words]) = self.bounds(index)?;
        let head = self.heads.get(from.checked_add(SIZES_BYTES)?..head)?;
        Some((head, words.checked_sub(spoken)?))
    }

    fn index(&self, seq: Seq) -> Option<usize> {
        usize::try_from(seq.0.checked_sub(self.first.0)?).ok()
    }

    /// The memory it lies in, to be used again.
    pub(super) fn into_memory(self) -> Memory {
        [self.heads, self.words.into_inner().unwrap_or_default()]
    }

    /// All records in order.
    pub(super) fn records(&self) -> impl Iterator<Item = Parts<'_>> {
        (0..self.ends.len()).filter_map(|index| self.at(index))
    }

    fn at(&self, index: usize) -> Option<Parts<'_>> {
        let ([from, spoken], [head, words]) = self.bounds(index)?;
        Some(Parts {
            head: self.heads.get(from.checked_add(SIZES_BYTES)?..head)?,
            words: self.words.get()?.get(spoken..words)?,
        })
    }

    /// Where a record begins and ends, in heads and words.
    fn bounds(&self, index: usize) -> Option<([usize; 2], [usize; 2])> {
        let to = *self.ends.get(index)?;
        let from = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => (0, 0),
        };
        Some((from.into(), to.into()))
    }

    /// A block without its words, which are so many bytes.
    fn read(first: Seq, count: usize, heads: Vec<u8>, words_size: usize) -> Option<Self> {
        let mut ends = Vec::with_capacity(count.min(heads.len()));
        let (mut head, mut spoken) = (0_usize, 0_usize);
        while let Some(rest) = heads.get(head..).filter(|rest| !rest.is_empty()) {
            let (size, rest) = number(rest)?;
            let (said, rest) = number(rest)?;
            rest.get(..size)?;
            head = head.checked_add(SIZES_BYTES)?.checked_add(size)?;
            spoken = spoken.checked_add(said)?;
            ends.push((head, spoken));
        }
        let whole = ends.len() == count && spoken == words_size;
        whole.then_some(Self {
            first,
            heads,
            words: OnceLock::new(),
            packed: None,
            ends,
        })
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
    Some((usize::try_from(u32::from_be_bytes(*number)).ok()?, rest))
}

/// The number of records of a block and its size, unpacked, from the beginning of its content.
pub(super) fn size(content: &[u8]) -> Option<(u64, usize)> {
    let (count, rest) = number(content.get(2..)?)?;
    let (heads, rest) = number(rest)?;
    let (words, _) = number(rest)?;
    Some((u64::try_from(count).ok()?, heads.checked_add(words)?))
}

/// Whether a block of this size, unpacked, is so small that what follows is packed into it as well.
pub(super) fn takes_more(bytes: usize) -> bool {
    bytes < BLOCK_BYTES / 2
}

/// Whether compressing is worth it for the records to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prospect {
    /// The bytes that are stored as they are before it is tried again.
    hopeless_bytes: usize,
}

impl Prospect {
    fn is_hopeless(self) -> bool {
        self.hopeless_bytes > 0
    }
}

/// Packs records, given what came of those before them. Gives the size unpacked beside.
pub(super) fn pack<'a>(
    records: impl Iterator<Item = Parts<'a>>,
    prospect: &mut Prospect,
    codec: &mut Codec,
) -> (Vec<u8>, usize) {
    let [mut heads, mut words] = std::mem::take(&mut codec.raw);
    heads.clear();
    words.clear();
    let mut count = 0_u32;
    for Parts { head, words: own } in records {
        heads.extend(length(head.len()).to_be_bytes());
        heads.extend(length(own.len()).to_be_bytes());
        heads.extend_from_slice(head);
        words.extend_from_slice(own);
        count = count.saturating_add(1);
    }
    let size = heads.len().saturating_add(words.len());
    let mut content = vec![STORED, STORED];
    content.extend(count.to_be_bytes());
    content.extend(length(heads.len()).to_be_bytes());
    content.extend(length(words.len()).to_be_bytes());
    let (heads_kind, packed) = codec.shrink(&heads, heads.len() / 8);
    content.extend(length(packed.len()).to_be_bytes());
    content.extend_from_slice(packed);
    let words_kind = if prospect.is_hopeless() {
        prospect.hopeless_bytes = prospect.hopeless_bytes.saturating_sub(words.len());
        content.extend_from_slice(&words);
        STORED
    } else {
        let (kind, packed) = codec.shrink(&words, words.len() / 8);
        content.extend_from_slice(packed);
        if kind == STORED && !words.is_empty() {
            prospect.hopeless_bytes = HOPELESS_BYTES;
        }
        kind
    };
    let kinds = content.iter_mut().zip([heads_kind, words_kind]);
    kinds.for_each(|(kind, known)| *kind = known);
    heads.shrink_to(SCRATCH_BYTES);
    words.shrink_to(SCRATCH_BYTES);
    codec.raw = [heads, words];
    (content, size)
}

/// Unpacks a block; `None` where its bytes are none.
pub(super) fn unpack(first: Seq, content: &[u8], codec: &mut Codec) -> Option<Block> {
    unpack_into(Memory::default(), first, content, codec)
}

/// Unpacks a block into memory that was used before.
pub(super) fn unpack_into(
    [heads, mut words]: Memory,
    first: Seq,
    content: &[u8],
    codec: &mut Codec,
) -> Option<Block> {
    let (block, kind, packed) = unpack_head(heads, first, content, codec)?;
    codec.expand_into(&mut words, kind, packed, block.words_size())?;
    block.words.set(words).ok()?;
    Some(block)
}

/// Unpacks a block but for its words, which keep their place in it: whoever wants them unpacks them.
pub(super) fn unpack_heads(first: Seq, content: &[u8], codec: &mut Codec) -> Option<Block> {
    let (mut block, kind, packed) = unpack_head(Vec::new(), first, content, codec)?;
    block.packed = Some((kind, packed.to_vec()));
    Some(block)
}

/// A block without words; their codec; and their bytes.
fn unpack_head<'a>(
    mut heads: Vec<u8>,
    first: Seq,
    content: &'a [u8],
    codec: &mut Codec,
) -> Option<(Block, u8, &'a [u8])> {
    let ([heads_kind, words_kind], rest) = content.split_first_chunk()?;
    let (count, rest) = number(rest)?;
    let (heads_size, rest) = number(rest)?;
    let (words_size, rest) = number(rest)?;
    let (packed, rest) = number(rest)?;
    let size = u64::try_from(heads_size.checked_add(words_size)?).ok()?;
    if size > RAW_BYTES_MAX || count == 0 {
        return None;
    }
    let (packed_heads, packed_words) = rest.split_at_checked(packed)?;
    codec.expand_into(&mut heads, *heads_kind, packed_heads, heads_size)?;
    let block = Block::read(first, count, heads, words_size)?;
    Some((block, *words_kind, packed_words))
}

/// zstd's working memory and our own, kept from one block to the next.
#[derive(Default)]
pub(super) struct Codec {
    packs: Option<zstd::bulk::Compressor<'static>>,
    unpacks: Option<zstd::bulk::Decompressor<'static>>,
    /// Heads and words.
    raw: Memory,
    packed: Vec<u8>,
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

impl Codec {
    /// Bytes as they are stored, behind the codec that says how: as they are where they would not
    /// shrink by more than `gain`.
    pub(super) fn shrink<'a>(&'a mut self, raw: &'a [u8], gain: usize) -> (u8, &'a [u8]) {
        let worth = raw.len().saturating_sub(gain);
        let packed = self.compress(raw).filter(|packed| packed.len() < worth);
        packed.map_or((STORED, raw), |packed| (ZSTD, packed))
    }

    /// What was stored; `None` where it is not what this codec gives of so many bytes.
    pub(super) fn expand(&mut self, kind: u8, bytes: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut raw = Vec::new();
        self.expand_into(&mut raw, kind, bytes, size)?;
        Some(raw)
    }

    fn expand_into(
        &mut self,
        raw: &mut Vec<u8>,
        kind: u8,
        bytes: &[u8],
        size: usize,
    ) -> Option<()> {
        raw.clear();
        match kind {
            STORED => raw.extend_from_slice(bytes),
            ZSTD => self.decompress(bytes, size, raw)?,
            _ => return None,
        }
        (raw.len() == size).then_some(())
    }

    /// `None` where there is no memory for it.
    fn compress(&mut self, raw: &[u8]) -> Option<&[u8]> {
        if self.packs.is_none() {
            self.packs = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        self.packed.clear();
        self.packed.shrink_to(SCRATCH_BYTES);
        self.packed
            .reserve(zstd::zstd_safe::compress_bound(raw.len()));
        let packed = self
            .packs
            .as_mut()?
            .compress_to_buffer(raw, &mut self.packed);
        let size = packed.ok()?;
        self.packed.get(..size)
    }

    fn decompress(&mut self, bytes: &[u8], size: usize, raw: &mut Vec<u8>) -> Option<()> {
        if self.unpacks.is_none() {
            self.unpacks = zstd::bulk::Decompressor::new().ok();
        }
        raw.reserve_exact(size);
        let unpacks = self.unpacks.as_mut()?;
        unpacks.decompress_to_buffer(bytes, raw).ok().map(drop)
    }
}

/// Where records of these sizes are cut into blocks: how many records each block takes.
pub(super) fn cut(sizes: impl Iterator<Item = usize> + Clone) -> Vec<usize> {
    let whole = sizes.clone().fold(0_usize, usize::saturating_add);
    let half = BLOCK_BYTES / 2;
    let blocks = (whole.saturating_add(half) / BLOCK_BYTES).max(1);
    let each = whole.div_ceil(blocks);
    let (mut cuts, mut count, mut bytes) = (Vec::new(), 0_usize, 0_usize);
    for size in sizes {
        // A large record begins a block of its own rather than swell the one before it.
        if count > 0 && bytes.saturating_add(size) > each.saturating_add(half) {
            cuts.push(std::mem::take(&mut count));
            bytes = 0;
        }
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(size);
        if bytes >= each {
            cuts.push(std::mem::take(&mut count));
            bytes = 0;
        }
    }
    if count > 0 {
        cuts.push(count);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let record = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            (any::<u8>(), 0_usize..3_000).prop_map(|(byte, size)| vec![byte; size]),
        ];
        prop::collection::vec(record, 1..30)
    }

    /// Some of its bytes are the head, the others words.
    fn parts(record: &[u8]) -> Parts<'_> {
        let (head, words) = record.split_at(record.len() / 3);
        Parts { head, words }
    }

    fn packed(records: &[Vec<u8>], prospect: &mut Prospect) -> Vec<u8> {
        pack(
            records.iter().map(|record| parts(record)),
            prospect,
            &mut Codec::default(),
        )
        .0
    }

    proptest! {
        #[test]
        fn a_block_gives_back_every_record_bit_for_bit(
            records in records(), first in 0_u64..9, hopeless_bytes in 0_usize..3
        ) {
            let content = packed(&records, &mut Prospect { hopeless_bytes });
            prop_assert_eq!(size(&content).map(|(count, _)| count), Some(records.len() as u64));
            let block = unpack(Seq(first), &content, &mut Codec::default()).unwrap();
            prop_assert!(block.records().eq(records.iter().map(|record| parts(record))));
            prop_assert_eq!(block.end(), Seq(first + records.len() as u64));
            let late = unpack_heads(Seq(first), &content, &mut Codec::default()).unwrap();
            for (seq, record) in (first..).zip(&records) {
                prop_assert_eq!(block.record(Seq(seq)), Some(parts(record)));
                let Parts { head, words } = parts(record);
                prop_assert_eq!(late.head(Seq(seq)), Some((head, words.len())));
            }
            prop_assert_eq!(late.record(Seq(first)), None);
            prop_assert_eq!(late.unpack_words(&mut Codec::default()), Some(()));
            prop_assert!(late.records().eq(block.records()));
            prop_assert_eq!(block.record(block.end()), None);
        }

        #[test]
        fn cuts_take_every_record_once(sizes in prop::collection::vec(0_usize..40_000, 1..80)) {
            let cuts = cut(sizes.iter().copied());
            prop_assert_eq!(cuts.iter().sum::<usize>(), sizes.len());
            prop_assert!(cuts.iter().all(|count| *count > 0));
            let mut rest = &sizes[..];
            for count in cuts {
                let (block, behind) = rest.split_at(count);
                prop_assert!(count == 1 || block.iter().sum::<usize>() <= 3 * BLOCK_BYTES);
                rest = behind;
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_take_memory(
            content in prop::collection::vec(any::<u8>(), 2..60), kinds in any::<[bool; 2]>()
        ) {
            let mut content = content;
            content.splice(..2, kinds.map(u8::from));
            let codec = &mut Codec::default();
            let _ = unpack(Seq(u64::MAX), &content, codec);
            let late = unpack_heads(Seq(u64::MAX), &content, codec);
            let _ = late.and_then(|late| late.unpack_words(codec));
        }
    }

    #[test]
    fn what_does_not_shrink_is_stored_and_not_tried_again_for_a_while() {
        let mut noise = vec![0; 30_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let mut prospect = Prospect::default();
        assert_eq!(packed(&[noise], &mut prospect)[1], STORED);
        let text = [vec![b'a'; 30_000]];
        for _ in 0..HOPELESS_BYTES / 20_000 {
            assert_eq!(packed(&text, &mut prospect)[1], STORED);
        }
        assert_eq!(packed(&text, &mut prospect)[1], STORED);
        assert_eq!(packed(&text, &mut prospect)[1], ZSTD);
        assert_eq!(packed(&text, &mut prospect)[1], ZSTD);
    }
}
