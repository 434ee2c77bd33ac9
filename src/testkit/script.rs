//! What is done to a conversation, as plain data: what generators make, what a failure shrinks to,
//! and what a printed script replays.

use super::summaries::Answers;
use crate::engine::Replacement;
use crate::formats::{Link, Step};
use crate::log::{Author, Fields, Json, Message, Micros, OpenCalls, Part, Role};

/// Some words: a text, so many times over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    /// The text.
    pub text: String,
    /// How often it is repeated; large contents stay readable this way.
    pub times: u16,
}

impl Words {
    /// A text once.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            times: 1,
        }
    }

    /// The whole text.
    #[must_use]
    pub fn whole(&self) -> String {
        self.text.repeat(usize::from(self.times))
    }
}

/// Who says something, and in which role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    /// A person, as user.
    Person,
    /// The model, as assistant.
    Model,
    /// The application, as system.
    System,
    /// The application, as developer.
    Developer,
    /// The application, as user: injected text.
    Injected,
    /// A tool that answers no call: only ever refused or withheld.
    Tool,
}

impl Speaker {
    pub(super) const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Person, "person"),
        (Self::Model, "model"),
        (Self::System, "system"),
        (Self::Developer, "developer"),
        (Self::Injected, "injected"),
        (Self::Tool, "tool"),
    ];

    /// Its role and author.
    #[must_use]
    pub const fn role(self) -> (Role, Author) {
        match self {
            Self::Person => (Role::User, Author::Person),
            Self::Model => (Role::Assistant, Author::Model),
            Self::System => (Role::System, Author::Application),
            Self::Developer => (Role::Developer, Author::Application),
            Self::Injected => (Role::User, Author::Application),
            Self::Tool => (Role::Tool, Author::Tool),
        }
    }
}

/// How a script's tool calls are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ids {
    /// All alike.
    One,
    /// Anew in each message: `call_0`, `call_1`, as some providers do.
    PerTurn,
    /// Each its own.
    Unique,
    /// None at all.
    Absent,
}

impl Ids {
    pub(super) const NAMES: &'static [(Self, &'static str)] = &[
        (Self::One, "one"),
        (Self::PerTurn, "per-turn"),
        (Self::Unique, "unique"),
        (Self::Absent, "absent"),
    ];
}

/// What is done with open tool calls at a call, by name.
pub(super) const OPEN_CALLS: &[(OpenCalls, &str)] = &[
    (OpenCalls::Close, "close"),
    (OpenCalls::Refuse, "refuse"),
    (OpenCalls::Keep, "keep"),
];

/// One thing that is done to a conversation. Numbers that pick something are taken modulo what there
/// is to pick, so that every operation means something everywhere and shrinking keeps it so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Someone says something.
    Say(Speaker, Words),
    /// Someone says nothing at all.
    Nothing(Speaker),
    /// The model reasons, signed or not.
    Reason {
        /// Whether the provider signed it.
        signed: bool,
    },
    /// The model calls tools, perhaps with words before.
    Calls {
        /// How many calls.
        count: usize,
        /// The words before them.
        words: Option<Words>,
    },
    /// A later block of the newest model message: a call, or words.
    Continue {
        /// Whether it is a call.
        call: bool,
    },
    /// Results of calls, counted back from the newest.
    Results {
        /// Which calls: 0 is the newest.
        back: Vec<usize>,
        /// Whether they are interim.
        interim: bool,
        /// A person's words in the same source message.
        words: Option<Words>,
        /// What the tools gave.
        out: Words,
    },
    /// A person shows an image of so many thousand bytes.
    Media(usize),
    /// A result of a call that was never made.
    Unknown,
    /// A call that the provider runs itself, answered in the same message or not.
    Native {
        /// Whether it is answered.
        answered: bool,
    },
    /// A model call, with the usage that is reported for it and whether it fails.
    Call {
        /// Input tokens reported.
        usage: Option<u64>,
        /// Whether the call failed.
        failed: bool,
    },
    /// The strategies are let look, without a call.
    Visit,
    /// Request settings of about this many thousand characters.
    Settings(usize),
    /// A message is restored: one that is away, where there is one.
    Restore(usize),
    /// An entry is undone: mostly one of the visits and edits, counted back from the newest.
    Undo(usize),
    /// A message of the window is pinned.
    Pin(usize),
    /// A pin is taken away: one that there is, where there is one.
    Unpin(usize),
    /// Messages of the window are replaced by words.
    Replace(Replacement, Words),
    /// A replacement is asked for; its words come later.
    Ask(Replacement),
    /// The words of a replacement that was asked for: one of those, counted back from the newest.
    Asked(usize, Words),
    /// Messages of the window are cleared, none named: all that may leave.
    Clear(Vec<usize>),
    /// A message is recalled: one that is away, where there is one, or one that was never logged.
    Recall(usize),
    /// Someone says the ids of two messages: one that is away, where there is one, and another.
    Refer(Speaker, usize),
    /// A message is said at a head so many entries back.
    Behind(usize, Words),
    /// A message is said under an idempotency key.
    Keyed(usize, Words),
    /// Another chain of strategies is asked for.
    Policy,
    /// A strategy with an impossible parameter is asked for.
    Impossible,
    /// A window beyond the head is asked for.
    Beyond(usize),
    /// A selection that ends before it begins is asked for.
    Inverted(usize),
    /// The conversation is forked so many entries before its head, and goes on as the fork.
    Fork {
        /// How many.
        back: usize,
        /// Whether calls that have no result there are answered as interrupted.
        close: bool,
    },
    /// The words of a message are destroyed, and those that were made of them: of any that was ever
    /// logged, or of one that never was.
    Redact(usize),
    /// All words of the conversation are destroyed.
    RedactAll,
    /// The store is opened anew.
    Reopen,
    /// The application notes something.
    Note,
    /// The summariser answers so from here on.
    Summaries(Answers),
    /// This happens while the summariser is asked next: something is said, restored, undone or
    /// pinned.
    Meanwhile(Box<Op>),
}

/// A conversation: its strategies, how its tool calls are named, what happens to open ones, what is
/// done in which order, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Strategies by their specs.
    pub chain: Vec<String>,
    /// How calls are named.
    pub ids: Ids,
    /// What happens to open calls.
    pub open_calls: OpenCalls,
    /// Wall times in seconds, used in turn; they may stand still and go back.
    pub times: Vec<i64>,
    /// What checks draw from when they need to pick a place, a moment or a bit.
    pub twist: u64,
    /// What is done.
    pub ops: Vec<Op>,
}

impl Script {
    /// A script of these operations under these strategies, with everything else plain.
    #[must_use]
    pub fn of(chain: &[&str], ops: Vec<Op>) -> Self {
        Self {
            chain: chain.iter().map(|s| (*s).to_owned()).collect(),
            ids: Ids::One,
            open_calls: OpenCalls::Close,
            times: vec![0],
            twist: 0,
            ops,
        }
    }

    /// A number below `bound` (0 where that is 0), another one for each `use_`, drawn from the
    /// script's twist.
    #[must_use]
    pub fn pick(&self, use_: &str, bound: usize) -> usize {
        let mut key = self.twist.to_le_bytes().to_vec();
        key.extend_from_slice(use_.as_bytes());
        let drawn = blake3::hash(&key);
        let eight = drawn.as_bytes().iter().take(8);
        let number = eight.fold(0_u64, |n, b| {
            n.wrapping_mul(256).wrapping_add(u64::from(*b))
        });
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(number.checked_rem(bound).unwrap_or(0)).unwrap_or(0)
    }
}

/// What a source says happened, for transcripts that are imported as they were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// Someone said something.
    Words(Speaker, Words),
    /// The model called tools, by number.
    Calls(Vec<usize>),
    /// A tool answered.
    Result(usize),
    /// The model was called.
    Called,
    /// The source summarised what came before.
    Compacted,
    /// The source cleared the results of these calls.
    Cleared(Vec<usize>),
    /// The source took steps back.
    Rewound(Vec<usize>),
}

impl Said {
    /// The step that an importer makes of it.
    #[must_use]
    pub fn step(&self) -> Step {
        let at = Some(Micros(3));
        let message = |message| Step::Message {
            message,
            at,
            link: Link::None,
        };
        let names = |ids: &[usize]| ids.iter().map(|i| format!("t{i}")).collect::<Vec<_>>();
        match self {
            Self::Words(speaker, words) => {
                let (role, author) = speaker.role();
                message(Message::new(role, author, vec![Part::text(words.whole())]))
            }
            Self::Calls(ids) => {
                let calls = names(ids)
                    .iter()
                    .map(|id| Part::call(id, "tool", "{}"))
                    .collect();
                message(Message::calls(calls))
            }
            Self::Result(id) => message(Message::tool(&format!("t{id}"), "out")),
            Self::Called => Step::Called { model: None, at },
            Self::Compacted => Step::Compacted {
                summary: Message::new(Role::User, Author::Application, vec![Part::text("so far")]),
                rest: Fields::new(),
                at,
            },
            Self::Cleared(ids) => Step::Cleared {
                calls: names(ids),
                marker: "[cleared]".into(),
                at,
            },
            Self::Rewound(gone) => Step::Rewound {
                gone: gone.clone(),
                at,
            },
        }
    }
}

/// The model that settings name: now one, now another, whose tokens are counted otherwise.
pub(super) const fn model_of(settings: &Json) -> &'static str {
    // 170 thousands of "tools " are even, so the number of thousands says nothing.
    if settings.0.len() / 1_020 % 3 == 1 {
        "gpt-4"
    } else {
        "m"
    }
}

/// The settings of [`Op::Settings`].
pub(super) fn settings(thousands: usize) -> Json {
    Json(format!(
        "{{\"system\":\"{}\"}}",
        "tools ".repeat(thousands.min(64).saturating_mul(170))
    ))
}
