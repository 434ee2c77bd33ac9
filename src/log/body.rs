//! What each kind of entry records: the frozen bodies of format 1.
//!
//! These structs *are* the stored form: bincode writes their fields in order, so a field may not
//! move, change or be added without a new format version. Golden logs pin them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::codes::codes;
use super::{
    AttemptOutcome, Author, ConversationId, GroupReason, Hash, LeftReason, MessageId, Role, Seq,
    VisitOutcome,
};

codes! {
    /// What an entry records. Codes of kinds that are not built yet are reserved here.
    Kind {
        /// Birth of a conversation.
        Opened = 1, "opened";
        /// Another key proved to be this conversation.
        Bound = 2, "bound";
        /// Strategies, settings, limits.
        Configured = 3, "configured";
        /// A message.
        Appended = 4, "appended";
        /// A reply or request in flight.
        Stream = 5, "stream";
        /// A playback receipt.
        Heard = 6, "heard";
        /// A model call.
        Called = 7, "called";
        /// What came back from a call.
        Returned = 8, "returned";
        /// A strategy's visit.
        Visited = 9, "visited";
        /// An edit by a person or the application.
        Edited = 10, "edited";
        /// Work paused, answered, abandoned.
        Waiting = 11, "waiting";
        /// Observer or reflector output.
        Observed = 12, "observed";
        /// A tool output kept for the conversation.
        Cached = 13, "cached";
        /// Its removal.
        Uncached = 14, "uncached";
        /// A payload destroyed.
        Redacted = 15, "redacted";
        /// A note.
        Noted = 16, "noted";
    }
}

impl Kind {
    /// Whether entries of this kind change a window, so that a reader who does not know the kind
    /// must not show later windows.
    #[must_use]
    pub const fn must_understand(self) -> bool {
        matches!(
            self,
            Self::Opened
                | Self::Appended
                | Self::Stream
                | Self::Visited
                | Self::Edited
                | Self::Observed
        )
    }
}

codes! {
    /// How an entry is known.
    Provenance {
        /// It happened through us.
        Recorded = 0, "recorded";
        /// An importer read it from a source.
        Inferred = 1, "inferred";
        /// A transcript was replayed through a strategy; no provider got these windows.
        Simulated = 2, "simulated";
        /// The engine made it.
        Synthetic = 3, "synthetic";
    }
}

codes! {
    /// The way in.
    Door {
        /// The library.
        Library = 0, "library";
        /// The command line.
        CommandLine = 1, "cli";
        /// An importer.
        Import = 2, "import";
        /// The engine itself.
        Engine = 3, "engine";
        /// The HTTP server.
        Server = 4, "server";
        /// The MCP server.
        Mcp = 5, "mcp";
    }
}

codes! {
    /// What a part of a message is, without its words.
    PartKind {
        /// Text.
        Text = 1, "text";
        /// A picture.
        Image = 2, "image";
        /// Sound.
        Audio = 3, "audio";
        /// Moving pictures.
        Video = 4, "video";
        /// A document or other file.
        File = 5, "file";
        /// A call of a tool.
        Call = 6, "call";
        /// The result of a call.
        Result = 7, "result";
        /// Reasoning.
        Reasoning = 8, "reasoning";
        /// An item only its provider understands.
        Opaque = 9, "opaque";
    }
}

codes! {
    /// What made a strategy look.
    Trigger {
        /// A call was about to be filed.
        Call = 1, "call";
        /// A message was appended.
        Append = 2, "append";
        /// Someone asked.
        Demand = 3, "demand";
    }
}

codes! {
    /// What an edit does.
    EditAction {
        /// Another content stands for something.
        Replace = 1, "replace";
        /// Contents or messages were cleared.
        Clear = 2, "clear";
        /// Something came back.
        Restore = 3, "restore";
        /// Something may not leave.
        Pin = 4, "pin";
        /// A pin ended.
        Unpin = 5, "unpin";
    }
}

codes! {
    /// How something stands for something else.
    StandInKind {
        /// A new form of one message; same id.
        Form = 1, "form";
        /// A claim for its exact sources.
        Claim = 2, "claim";
        /// Engine text saying that groups left.
        Notice = 3, "notice";
    }
}

codes! {
    /// How well a conversation's identity is proved.
    Identity {
        /// An explicit id.
        Explicit = 1, "explicit";
        /// A thread or session id.
        Session = 2, "session";
        /// A client's message id.
        Client = 3, "client";
        /// Derived from content.
        Derived = 4, "derived";
        /// Random.
        Random = 5, "random";
    }
}

codes! {
    /// What happens to open tool calls when a call is about to be filed.
    OpenCalls {
        /// They are closed by synthetic `interrupted` results.
        Close = 1, "close";
        /// The call is refused as `open-calls`.
        Refuse = 2, "refuse";
        /// They stay open: the source sent them so.
        Keep = 3, "keep";
    }
}

codes! {
    /// What a measure counts.
    Unit {
        /// Groups.
        Group = 1, "group";
        /// Messages.
        Message = 2, "message";
        /// Runs begun by a person.
        Request = 3, "request";
        /// Tokens.
        Token = 4, "token";
        /// Bytes of UTF-8.
        Byte = 5, "byte";
    }
}

impl Serialize for Role {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            return s.serialize_str(self.name());
        }
        let code: u8 = match self {
            Self::System => 1,
            Self::Developer => 2,
            Self::User => 3,
            Self::Assistant => 4,
            Self::Tool => 5,
            Self::Other(_) => 255,
        };
        s.serialize_u8(code)
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            return Ok(Self::from_name(&String::deserialize(d)?));
        }
        Ok(match u8::deserialize(d)? {
            1 => Self::System,
            2 => Self::Developer,
            3 => Self::User,
            4 => Self::Assistant,
            5 => Self::Tool,
            255 => Self::Other("other".to_owned()),
            code => return Err(serde::de::Error::custom(format!("{code} is no role"))),
        })
    }
}

/// Message ids as ranges. A range names every *message* between its ends; other entries may lie
/// between them. Ascending, disjoint.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(pub Vec<(Seq, Seq)>);

impl Ranges {
    /// Whether it names nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it names this message.
    #[must_use]
    pub fn contains(&self, id: MessageId) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < id.seq());
        self.0.get(at).is_some_and(|(first, _)| *first <= id.seq())
    }
}

/// As ids: `m3..m7 m9`.
impl std::fmt::Display for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let apart = if at == 0 { "" } else { " " };
            write!(f, "{apart}{}", MessageId(*first))?;
            if first != last {
                write!(f, "..{}", MessageId(*last))?;
            }
        }
        Ok(())
    }
}

/// A promise about a content: the blake3 of salt and bytes, and how many bytes there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Commitment {
    /// blake3, derive-key context `ctxlog payload v1`, over salt and bytes.
    pub digest: Hash,
    /// The encoded content's length in bytes.
    pub bytes: u64,
}

/// A number of tokens with the method that counted it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Count {
    /// `tiktoken:o200k_base`, `estimate:utf16/4`, ….
    pub method: String,
    /// Tokens.
    pub amount: u64,
}

/// A part of a message without its words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartSkeleton {
    /// What it is.
    pub kind: PartKind,
    /// Bytes of its words.
    pub bytes: u64,
    /// [`PartSkeleton::SIGNED`] and the other flags.
    pub flags: u8,
    /// The tool's name, of calls and where a result gives it.
    pub name: Option<String>,
    /// The provider's id of the call: a label.
    pub label: Option<String>,
    /// Of a result: the call it answers, as the message's seq and the part's position in it.
    pub answers: Option<(Seq, u32)>,
}

impl PartSkeleton {
    /// Bound by a provider's signature.
    pub const SIGNED: u8 = 1;
    /// A result that is not final.
    pub const INTERIM: u8 = 2;
    /// A result that reports an error.
    pub const ERROR: u8 = 4;
    /// A call or result that the provider itself ran.
    pub const NATIVE: u8 = 8;
    /// Text that is empty or only white space.
    pub const BLANK: u8 = 16;
    /// A result that holds media.
    pub const MEDIA: u8 = 32;

    /// Whether a flag is set.
    #[must_use]
    pub const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is, or holds, something whose tokens no text tells: a picture, sound, a file.
    #[must_use]
    pub const fn is_media(&self) -> bool {
        use PartKind::{Audio, File, Image, Video};
        matches!(self.kind, Image | Audio | Video | File) || self.is(Self::MEDIA)
    }
}

/// A message without its words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Skeleton {
    /// Who it speaks as.
    pub role: Role,
    /// Who wrote it.
    pub author: Author,
    /// Its parts, in order.
    pub parts: Vec<PartSkeleton>,
    /// Units of UTF-16 of its words: what `estimate:utf16/4` divides.
    pub utf16: u64,
    /// Tokens of its words by `estimate:script`.
    pub by_script: u64,
    /// Tokens of its words, where they were counted.
    pub tokens: Option<Count>,
}

impl Skeleton {
    /// Takes it out of an entry that nobody reads any more; what is left there has no parts.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            role: self.role.clone(),
            author: self.author,
            parts: std::mem::take(&mut self.parts),
            utf16: self.utf16,
            by_script: self.by_script,
            tokens: self.tokens.take(),
        }
    }
}

/// Where a fork leaves its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The parent.
    pub parent: ConversationId,
    /// Its last shared entry.
    pub at: Seq,
}

/// Birth.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// Tenant and further segments.
    pub namespace: Vec<String>,
    /// The name at birth.
    pub name: String,
    /// How well the identity is proved.
    pub identity: Identity,
    /// Of a fork: where it left its parent.
    pub fork: Option<ForkPoint>,
    /// Of a sub-agent: the tool call that started it (conversation, message, part).
    pub started_by: Option<(ConversationId, Seq, u32)>,
    /// The lineage's secret, which keys blob addresses. Payload 0.
    pub secret: Commitment,
}

/// Request settings: everything of a request but its messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The model's name.
    pub model: Option<String>,
    /// The format the settings are written in.
    pub format: String,
    /// The settings as JSON text.
    pub content: Commitment,
    /// Tokens the settings themselves cost in every request.
    pub overhead: Option<Count>,
}

/// What was configured; absent members stay as they were.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Configured {
    /// The chain of strategies, each with its resolved parameters.
    pub strategies: Option<Vec<String>>,
    /// Request settings. Payload 0 where present.
    pub settings: Option<Settings>,
    /// What happens to open tool calls.
    pub open_calls: Option<OpenCalls>,
    /// Named limits.
    pub limits: Vec<(String, u64)>,
    /// When to consolidate.
    pub consolidation: Option<String>,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Appended {
    /// The message without its words.
    pub skeleton: Skeleton,
    /// The message it continues: a group edge, no new call.
    pub continues: Option<Seq>,
    /// The message it shared one source message with.
    pub same_source: Option<Seq>,
    /// The call that produced it.
    pub produced_by: Option<Seq>,
    /// Its words. Payload 0.
    pub content: Commitment,
}

/// A body that was handed out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RenderedBody {
    /// The provider profile.
    pub profile: String,
    /// The renderer's version.
    pub renderer: u32,
    /// blake3 of the body.
    pub digest: Hash,
}

/// A model call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Called {
    /// The digest of the window it was sent.
    pub window: Hash,
    /// How many messages the window held.
    pub messages: u64,
    /// The commitment of the request settings in force; zero where none were filed.
    pub settings: Hash,
    /// The model.
    pub model: Option<String>,
    /// The body, where one was handed out.
    pub body: Option<RenderedBody>,
}

/// Token usage as the provider gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
    /// Input tokens read from a cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache.
    pub cache_write: Option<u64>,
}

impl Usage {
    /// All input tokens, cached ones included; `None` where none were reported.
    #[must_use]
    pub fn total_input(&self) -> Option<u64> {
        let known = [self.input, self.cache_read, self.cache_write];
        known
            .iter()
            .any(Option::is_some)
            .then(|| known.into_iter().flatten().fold(0, u64::saturating_add))
    }
}

/// What came back from a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Returned {
    /// The `called` entry.
    pub call: Seq,
    /// Whether the call failed.
    pub failed: bool,
    /// Usage as the provider gave it.
    pub usage: Option<Usage>,
    /// The failure's words and the answer's other fields, as JSON text. Payload 0 where present.
    pub rest: Option<Commitment>,
}

/// What left for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Left {
    /// Why.
    pub reason: LeftReason,
    /// The messages.
    pub messages: Ranges,
}

/// What may not leave for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub reason: GroupReason,
    /// The messages of the groups.
    pub messages: Ranges,
}

/// A content that stands for messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StandIn {
    /// How it stands for them.
    pub kind: StandInKind,
    /// Why its sources left, or why the form changed.
    pub reason: LeftReason,
    /// The exact messages it stands for; a form has one, a notice none.
    pub sources: Ranges,
    /// The content without its words.
    pub skeleton: Skeleton,
    /// Its words.
    pub content: Commitment,
}

/// What a visit or an edit changes in the window. Payloads: the stand-ins' contents, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Change {
    /// Messages that left without a stand-in.
    pub left: Vec<Left>,
    /// Contents that stand for messages; at most one of them a claim.
    pub stand_ins: Vec<StandIn>,
    /// Messages that came back, at their old place.
    pub entered: Ranges,
    /// Messages whose content goes back to the one that an earlier entry gave: (message, entry).
    pub reverted: Vec<(Seq, Seq)>,
    /// Messages that may not leave from here on.
    pub pinned: Ranges,
    /// Messages whose pin ends.
    pub unpinned: Ranges,
    /// The visit or edit this one undoes.
    pub undoes: Option<Seq>,
}

/// A measured size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// What was counted.
    pub unit: Unit,
    /// How: `count` for groups, messages and requests; a tokenizer's or estimate's name; `reported`.
    pub method: Cow<'static, str>,
    /// How much.
    pub amount: u64,
}

/// A strategy's visit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Visited {
    /// The strategy with its resolved parameters.
    pub strategy: String,
    /// Its position in the chain.
    pub position: u32,
    /// The head the decision was computed on.
    pub base: Seq,
    /// What made it look.
    pub trigger: Trigger,
    /// The window's size before, in the strategy's own measure.
    pub before: Reading,
    /// The limit that the size exceeded, in the same unit.
    pub limit: u64,
    /// The size it aimed at.
    pub target: u64,
    /// The window's size after.
    pub after: Reading,
    /// How it ended.
    pub outcome: VisitOutcome,
    /// By how much the target was missed.
    pub shortfall: Option<u64>,
    /// Groups that refuse and did not refuse, or not for this reason, at the previous visit.
    pub refused: Vec<Refused>,
    /// Groups that refused at the previous visit and were not asked, or would be free, at this one.
    pub released: Ranges,
    /// Messages that `pin-results` would have held and that this visit asked all the same: it had
    /// held the visit before from getting anywhere.
    pub stood_down: Ranges,
    /// The strategy's previous visit that asked the groups: what it says of other groups still holds.
    pub unchanged_since: Option<Seq>,
    /// The place of the first item that changed: what a prompt cache must read again.
    pub first_changed: Option<Seq>,
    /// What that costs: the tokens of the window before the visit, from the first changed item on,
    /// that the newest call had sent.
    pub invalidated: Option<Reading>,
    /// What was asked of a summariser, in order.
    pub attempts: Vec<Attempt>,
    /// What changed.
    pub change: Change,
}

/// One question to a summariser, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// Who was asked: the summariser's name for itself.
    pub summarizer: String,
    /// The messages whose words the prompt held. What it did not hold, no claim stands for.
    pub sources: Ranges,
    /// What all messages to be summarised were then: blake3, derive-key context `ctxlog sources v1`,
    /// over the seq, the form and the commitment of each. Where a long span was asked about in
    /// pieces, it is that of the span.
    pub digest: Hash,
    /// blake3, derive-key context `ctxlog prompt v1`, of the prompt; zero where none was handed out.
    pub prompt: Hash,
    /// The model that answered, where it is known.
    pub model: Option<String>,
    /// What it cost, where it is known.
    pub usage: Option<Usage>,
    /// Bytes of the answer, as it was given.
    pub answered: u64,
    /// Whether the answer was cut to what may be stored.
    pub clipped: bool,
    /// How it ended.
    pub outcome: AttemptOutcome,
}

/// An edit by a person or the application.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Edited {
    /// What it does.
    pub action: EditAction,
    /// What changed.
    pub change: Change,
    /// What was asked for and what it came to, or what the source says about it, as JSON text. The
    /// last payload where present.
    pub rest: Option<Commitment>,
}

/// A note.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Noted {
    /// What it is.
    pub what: String,
    /// Where it was found.
    pub place: String,
    /// Whether a person should be told.
    pub warn: bool,
    /// Its words, as JSON text. Payload 0 where present.
    pub content: Option<Commitment>,
}

/// Payloads that were destroyed, salts and bytes. Windows and digests are as they were.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redacted {
    /// The message that was asked for; none where all words of the conversation were, and where a fork
    /// says what it shares that was destroyed before it was made.
    pub asked: Option<Seq>,
    /// All payloads of the entries up to this one went, but the secret that keys blobs.
    pub up_to: Option<Seq>,
    /// Others: the entry, and the payload's index in it.
    pub payloads: Vec<(Seq, u32)>,
}

impl Redacted {
    /// Whether it says that a payload was destroyed.
    #[must_use]
    pub fn names(&self, seq: Seq, index: u32) -> bool {
        self.up_to.is_some_and(|up_to| seq <= up_to) || self.payloads.contains(&(seq, index))
    }
}

/// The body of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Body {
    /// Birth.
    Opened(Opened),
    /// Strategies, settings, limits.
    Configured(Configured),
    /// A message.
    Appended(Appended),
    /// A model call.
    Called(Called),
    /// What came back.
    Returned(Returned),
    /// A strategy's visit.
    Visited(Box<Visited>),
    /// An edit.
    Edited(Edited),
    /// Payloads that were destroyed.
    Redacted(Redacted),
    /// A note.
    Noted(Noted),
    /// A kind this version does not know, byte for byte.
    Unknown {
        /// Its code.
        kind: u8,
        /// Its encoded body.
        bytes: Vec<u8>,
    },
}

impl Body {
    /// The kind's code.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Opened(_) => Kind::Opened.code(),
            Self::Configured(_) => Kind::Configured.code(),
            Self::Appended(_) => Kind::Appended.code(),
            Self::Called(_) => Kind::Called.code(),
            Self::Returned(_) => Kind::Returned.code(),
            Self::Visited(_) => Kind::Visited.code(),
            Self::Edited(_) => Kind::Edited.code(),
            Self::Redacted(_) => Kind::Redacted.code(),
            Self::Noted(_) => Kind::Noted.code(),
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The kind, where this version knows it.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        Kind::from_code(self.code())
    }

    /// The visit, where it is one.
    #[must_use]
    pub fn visit(&self) -> Option<&Visited> {
        match self {
            Self::Visited(visit) => Some(visit),
            _ => None,
        }
    }

    /// The change of a visit or edit.
    #[must_use]
    pub fn change(&self) -> Option<&Change> {
        match self {
            Self::Visited(v) => Some(&v.change),
            Self::Edited(e) => Some(&e.change),
            _ => None,
        }
    }

    /// Every commitment the entry makes, in payload order.
    #[must_use]
    pub fn commitments(&self) -> Vec<Commitment> {
        let stand_ins = |c: &Change| c.stand_ins.iter().map(|s| s.content).collect::<Vec<_>>();
        match self {
            Self::Opened(o) => vec![o.secret],
            Self::Configured(c) => c.settings.iter().map(|s| s.content).collect(),
            Self::Appended(a) => vec![a.content],
            Self::Returned(r) => r.rest.into_iter().collect(),
            Self::Visited(v) => stand_ins(&v.change),
            Self::Edited(e) => stand_ins(&e.change).into_iter().chain(e.rest).collect(),
            Self::Noted(n) => n.content.into_iter().collect(),
            Self::Called(_) | Self::Redacted(_) | Self::Unknown { .. } => Vec::new(),
        }
    }
}
