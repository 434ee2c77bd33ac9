//! When to consolidate: policies that are asked with what is known, and answer with why.

use core::time::Duration;
use std::fmt;
use std::sync::Arc;

use crate::log::{Micros, Reading, Unit};
use crate::window::{Consolidated, count};

use super::{SpecError, check_form};

/// How deep policies may stand in others.
const DEPTH_MAX: usize = 16;
/// The method of bytes of text parts.
const TEXT: &str = "utf8:text-only";

/// When a conversation is due to be consolidated. Asked with [`Signals`] alone: the same signals give
/// the same answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConsolidationPolicy {
    /// When so many messages are there, what stands for others aside.
    OnMessageCount(u64),
    /// When the text of those messages comes to so many bytes of UTF-8.
    OnBytes(u64),
    /// When the tokens used come to so many thousandths of those available, 1 to 1000.
    OnTokens(u32),
    /// At most once in so long a time.
    AtMostOncePer(Duration),
    /// Never.
    Never,
    /// When any of these is due.
    AnyOf(Vec<Self>),
    /// When all of these are due.
    AllOf(Vec<Self>),
    /// One of your own.
    Custom(Arc<dyn Consolidate>),
}

/// A policy of your own. Pure: the same signals give the same answer.
pub trait Consolidate: Send + Sync + fmt::Debug {
    /// Its name and parameters, which name it in the log: one line, without brackets.
    fn spec(&self) -> String;

    /// Whether it is due.
    fn due(&self, signals: &Signals) -> bool;
}

/// What a policy is asked with. What is not set is not known; new signals are new methods, so that
/// none breaks a policy that does not look at them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Signals {
    messages: u64,
    bytes: u64,
    uncounted: u64,
    now: Option<Micros>,
    last: Option<Last>,
    tokens: Option<(u64, u64)>,
}

/// When the conversation was consolidated last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    Never,
    At(Option<Micros>),
}

impl Signals {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The wall time now.
    #[must_use]
    pub const fn at(mut self, now: Micros) -> Self {
        self.now = Some(now);
        self
    }

    /// When it was consolidated last, whatever the log says.
    #[must_use]
    pub const fn last_consolidated(mut self, at: Micros) -> Self {
        self.last = Some(Last::At(Some(at)));
        self
    }

    /// The tokens used, of those available: one says nothing without the other.
    #[must_use]
    pub const fn tokens(mut self, used: u64, available: u64) -> Self {
        self.tokens = Some((used, available));
        self
    }

    /// The messages there are, the bytes of their text, and how many of their parts are no text.
    #[must_use]
    pub const fn messages(mut self, messages: u64, text_bytes: u64, uncounted: u64) -> Self {
        (self.messages, self.bytes, self.uncounted) = (messages, text_bytes, uncounted);
        self
    }

    /// Fills in what the caller did not say: the time, and what the log says of the last
    /// consolidation.
    #[must_use]
    pub(crate) fn or(mut self, now: Option<Micros>, logged: Option<Consolidated>) -> Self {
        self.now = self.now.or(now);
        let logged = logged.map_or(Last::Never, |c| Last::At(c.at));
        self.last = self.last.or(Some(logged));
        self
    }

    /// How many messages there are.
    #[must_use]
    pub const fn message_count(&self) -> u64 {
        self.messages
    }

    /// The bytes of their text.
    #[must_use]
    pub const fn text_bytes(&self) -> u64 {
        self.bytes
    }

    /// The wall time now.
    #[must_use]
    pub const fn now(&self) -> Option<Micros> {
        self.now
    }

    /// When it was consolidated last; `None` before the first time, or where that is not known.
    #[must_use]
    pub const fn last(&self) -> Option<Micros> {
        match self.last {
            Some(Last::At(at)) => at,
            Some(Last::Never) | None => None,
        }
    }

    /// The tokens used and available.
    #[must_use]
    pub const fn used_of_available(&self) -> Option<(u64, u64)> {
        self.tokens
    }
}

/// Why one policy says what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Because {
    /// This was measured, against this threshold: due where it is reached. `uncounted` parts are
    /// not in it.
    Measured {
        /// What was measured.
        reading: Reading,
        /// The threshold.
        threshold: u64,
        /// Parts that are not in it.
        uncounted: u64,
    },
    /// It was consolidated at this time; `None` for never.
    Last(Option<Micros>),
    /// What it goes by is not known.
    Unmeasurable,
    /// It says so itself: `never`, or a policy of your own.
    Itself,
    /// There is nothing to consolidate.
    Empty,
    /// No policy is set.
    NoPolicy,
}

/// What one policy says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The policy, by its spec; empty where none is set.
    pub policy: String,
    /// Whether it is due.
    pub due: bool,
    /// Why.
    pub because: Because,
}

/// Whether a conversation is due to be consolidated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// Whether it is.
    pub due: bool,
    /// What each policy says, those in `any` and `all` one by one.
    pub why: Vec<Verdict>,
}

impl Due {
    /// Not due, since no policy is set: that is no error, and another thing than not being due yet.
    #[must_use]
    pub fn no_policy() -> Self {
        let none = Verdict {
            policy: String::new(),
            due: false,
            because: Because::NoPolicy,
        };
        Self {
            due: false,
            why: vec![none],
        }
    }
}

impl ConsolidationPolicy {
    /// Whether it is due. Where there are no messages it never is.
    #[must_use]
    pub fn due(&self, signals: &Signals) -> Due {
        let mut why = Vec::new();
        if signals.messages == 0 {
            why.push(Verdict {
                policy: self.to_string(),
                due: false,
                because: Because::Empty,
            });
            return Due { due: false, why };
        }
        let due = self.ask(signals, &mut why);
        Due { due, why }
    }

    fn ask(&self, signals: &Signals, why: &mut Vec<Verdict>) -> bool {
        let (due, because) = match self {
            Self::AnyOf(of) => return ask_each(of, signals, why).contains(&true),
            Self::AllOf(of) => return !ask_each(of, signals, why).contains(&false),
            Self::OnMessageCount(n) => reached(count(Unit::Message, signals.messages), *n, 0),
            Self::OnBytes(n) => {
                let reading = Reading {
                    unit: Unit::Byte,
                    method: TEXT.into(),
                    amount: signals.bytes,
                };
                reached(reading, *n, signals.uncounted)
            }
            Self::OnTokens(thousandths) => match signals.tokens {
                Some((used, available)) => {
                    let reading = Reading {
                        unit: Unit::Token,
                        method: "caller".into(),
                        amount: used,
                    };
                    reached(reading, share(available, *thousandths), 0)
                }
                None => (false, Because::Unmeasurable),
            },
            Self::AtMostOncePer(time) => waited(signals, *time),
            Self::Never => (false, Because::Itself),
            Self::Custom(own) => (own.due(signals), Because::Itself),
        };
        why.push(Verdict {
            policy: self.to_string(),
            due,
            because,
        });
        due
    }

    /// Whether its parameters are possible.
    ///
    /// # Errors
    /// When one is not, naming it.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_at(DEPTH_MAX)
    }

    fn check_at(&self, depth: usize) -> Result<(), SpecError> {
        let wrong = |takes| {
            let name = "consolidation";
            Err(SpecError::option(name, "policy", &self.to_string(), takes))
        };
        match self {
            Self::OnMessageCount(0) | Self::OnBytes(0) => wrong("a number of at least 1"),
            Self::OnTokens(n) if *n == 0 || *n > 1_000 => wrong("a share from 0.001 to 1"),
            Self::AtMostOncePer(time) if time.as_micros() == 0 => wrong("a time that passes"),
            Self::AnyOf(of) | Self::AllOf(of) if of.is_empty() => wrong("at least one policy"),
            Self::AnyOf(of) | Self::AllOf(of) => match depth.checked_sub(1) {
                Some(depth) => of.iter().try_for_each(|p| p.check_at(depth)),
                None => wrong("policies at most 16 deep in others"),
            },
            Self::Custom(own) if own.spec().contains(['(', ')', ';']) => {
                wrong("a spec without brackets and semicolons")
            }
            Self::Custom(own) if Self::parse(&own.spec()).is_some() => {
                wrong("a spec that is no other policy's")
            }
            _ => Ok(()),
        }?;
        check_form(&self.to_string())
    }

    /// The policy of a spec, as [`fmt::Display`] writes it; `None` where it is one of somebody's own, or
    /// none.
    #[must_use]
    pub fn parse(spec: &str) -> Option<Self> {
        Self::parse_at(spec, DEPTH_MAX)
    }

    fn parse_at(spec: &str, depth: usize) -> Option<Self> {
        let inner = |name| spec.strip_prefix(name)?.strip_suffix(')');
        if let Some(of) = inner("any(") {
            return Some(Self::AnyOf(parse_each(of, depth)?));
        }
        if let Some(of) = inner("all(") {
            return Some(Self::AllOf(parse_each(of, depth)?));
        }
        if spec == "never" {
            return Some(Self::Never);
        }
        let (name, value) = spec.split_once('=')?;
        Some(match name {
            "messages" => Self::OnMessageCount(value.parse().ok()?),
            "bytes" => Self::OnBytes(value.parse().ok()?),
            "tokens" => {
                let (whole, thousandths) = value.split_once('.')?;
                let whole: u32 = whole.parse().ok()?;
                let thousandths: u32 = thousandths.parse().ok()?;
                Self::OnTokens(whole.checked_mul(1_000)?.checked_add(thousandths)?)
            }
            "every" => {
                let micros = value.strip_suffix("us")?.parse().ok()?;
                Self::AtMostOncePer(Duration::from_micros(micros))
            }
            _ => return None,
        })
    }

    /// Whether it can ever be due where a strategy leaves at most so many messages after every
    /// append.
    #[must_use]
    pub fn can_fire_within(&self, messages: u64) -> bool {
        match self {
            Self::OnMessageCount(n) => *n <= messages,
            Self::AnyOf(of) => of.iter().any(|p| p.can_fire_within(messages)),
            Self::AllOf(of) => of.iter().all(|p| p.can_fire_within(messages)),
            _ => true,
        }
    }
}

/// Asks all, so that all is told.
fn ask_each(of: &[ConsolidationPolicy], signals: &Signals, why: &mut Vec<Verdict>) -> Vec<bool> {
    of.iter().map(|p| p.ask(signals, why)).collect()
}

/// Policies parted by semicolons that stand in no brackets; none where they are `depth` deep already.
fn parse_each(text: &str, depth: usize) -> Option<Vec<ConsolidationPolicy>> {
    let within = depth.checked_sub(1)?;
    let mut depth = 0_usize;
    let parts = text.split(|c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    });
    let parse = |part| ConsolidationPolicy::parse_at(part, within);
    parts.map(parse).collect()
}

fn reached(reading: Reading, threshold: u64, uncounted: u64) -> (bool, Because) {
    let due = reading.amount >= threshold;
    let because = Because::Measured {
        reading,
        threshold,
        uncounted,
    };
    (due, because)
}

/// So many thousandths of a whole, rounded up.
fn share(whole: u64, thousandths: u32) -> u64 {
    let share = u128::from(whole).saturating_mul(thousandths.into());
    u64::try_from(share.div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// A time that lies ahead has not passed.
fn waited(signals: &Signals, time: Duration) -> (bool, Because) {
    let last = match signals.last {
        None | Some(Last::At(None)) => return (false, Because::Unmeasurable),
        Some(Last::Never) => return (true, Because::Last(None)),
        Some(Last::At(Some(last))) => last,
    };
    let Some(now) = signals.now else {
        return (false, Because::Unmeasurable);
    };
    let passed = now
        .0
        .checked_sub(last.0)
        .and_then(|p| u128::try_from(p).ok());
    let due = passed.is_some_and(|passed| passed >= time.as_micros());
    (due, Because::Last(Some(last)))
}

impl fmt::Display for ConsolidationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, of: &[Self]| {
            let of: Vec<String> = of.iter().map(ToString::to_string).collect();
            write!(f, "{name}({})", of.join(";"))
        };
        match self {
            Self::OnMessageCount(n) => write!(f, "messages={n}"),
            Self::OnBytes(n) => write!(f, "bytes={n}"),
            Self::OnTokens(n) => write!(f, "tokens={}.{:03}", n / 1_000, n % 1_000),
            Self::AtMostOncePer(time) => write!(f, "every={}us", time.as_micros()),
            Self::Never => f.write_str("never"),
            Self::AnyOf(of) => list(f, "any", of),
            Self::AllOf(of) => list(f, "all", of),
            Self::Custom(own) => f.write_str(&own.spec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConsolidationPolicy as P;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn due(policy: &P, signals: &Signals) -> bool {
        policy.due(signals).due
    }

    #[test]
    fn counts_and_bytes_are_due_when_they_are_reached_and_never_of_nothing() {
        let at = |messages, bytes| Signals::new().messages(messages, bytes, 0);
        assert!(!due(&P::OnMessageCount(3), &at(2, 99)));
        assert!(due(&P::OnMessageCount(3), &at(3, 0)));
        assert!(!due(&P::OnBytes(10), &at(1, 9)));
        assert!(due(&P::OnBytes(10), &at(1, 10)));
        assert!(!due(&P::Never, &at(1_000, 1 << 40)));
        for policy in [P::OnMessageCount(0), P::OnBytes(0), P::AnyOf(Vec::new())] {
            assert!(policy.check().is_err());
            assert_eq!(policy.due(&at(0, 0)).why[0].because, Because::Empty);
        }
    }

    #[test]
    fn tokens_need_both_numbers() {
        let policy = P::OnTokens(800);
        let some = Signals::new().messages(1, 1, 0);
        assert_eq!(policy.due(&some).why[0].because, Because::Unmeasurable);
        assert!(!due(&policy, &some.clone().tokens(799, 1_000)));
        assert!(due(&policy, &some.clone().tokens(800, 1_000)));
        assert!(due(&policy, &some.tokens(0, 0)), "no room at all");
    }

    #[test]
    fn at_most_once_in_a_time_waits_for_it_and_a_time_ahead_blocks() {
        let policy = P::AtMostOncePer(HOUR);
        let hours = |n: i64| Micros(n * 3_600_000_000);
        let logged_at = |at| {
            Some(Consolidated {
                seq: crate::log::Seq(1),
                at,
                marked: true,
            })
        };
        let some = Signals::new().messages(1, 1, 0).at(hours(10));
        assert!(due(&policy, &some.clone().or(None, None)), "before any");
        for (last, expected) in [(10, false), (9, true), (11, false)] {
            let logged = some.clone().or(None, logged_at(Some(hours(last))));
            assert_eq!(due(&policy, &logged), expected, "{last}");
            // What the caller says goes before the log.
            let told = some.clone().last_consolidated(hours(8));
            assert!(due(&policy, &told.or(None, logged_at(Some(hours(last))))));
        }
        let unknown = some.or(None, logged_at(None));
        assert_eq!(policy.due(&unknown).why[0].because, Because::Unmeasurable);
    }

    #[test]
    fn combinations_tell_what_each_of_them_says() {
        let signals = Signals::new().messages(5, 0, 0).or(None, None);
        let any = P::AnyOf(vec![P::OnMessageCount(9), P::OnMessageCount(5)]);
        let all = P::AllOf(vec![any.clone(), P::AtMostOncePer(HOUR), P::Never]);
        assert!(due(&any, &signals));
        let answer = all.due(&signals);
        let said: Vec<bool> = answer.why.iter().map(|v| v.due).collect();
        assert_eq!((answer.due, said), (false, vec![false, true, true, false]));
        assert_eq!(
            all.to_string(),
            "all(any(messages=9;messages=5);every=3600000000us;never)"
        );
        assert!(any.can_fire_within(5) && !any.can_fire_within(4));
        assert!(!P::AllOf(vec![any.clone(), P::OnMessageCount(6)]).can_fire_within(5));
    }

    fn policy() -> impl proptest::prelude::Strategy<Value = P> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            any::<u64>().prop_map(P::OnMessageCount),
            any::<u64>().prop_map(P::OnBytes),
            (0..2_000_u32).prop_map(P::OnTokens),
            (0..u64::from(u32::MAX)).prop_map(|n| P::AtMostOncePer(Duration::from_micros(n))),
            Just(P::Never),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            let some = || prop::collection::vec(inner.clone(), 1..4);
            prop_oneof![some().prop_map(P::AnyOf), some().prop_map(P::AllOf)]
        })
    }

    proptest::proptest! {
        #[test]
        fn a_policy_is_what_its_spec_says(policy in policy()) {
            let again = P::parse(&policy.to_string()).map(|p| p.to_string());
            proptest::prop_assert_eq!(again, Some(policy.to_string()));
        }
    }

    /// A log may have been written by anybody: what it says of policies is read with a bound.
    #[test]
    fn policies_are_not_nested_without_end() {
        let nested = |n: usize| format!("{}never{}", "any(".repeat(n), ")".repeat(n));
        assert!(P::parse(&nested(DEPTH_MAX)).is_some_and(|p| p.check().is_ok()));
        assert!(P::parse(&nested(DEPTH_MAX + 1)).is_none());
        assert!(P::parse(&nested(1_000_000)).is_none());
        let deep = (0..=DEPTH_MAX).fold(P::Never, |p, _| P::AnyOf(vec![p]));
        assert!(deep.check().is_err());
    }

    #[test]
    fn what_is_no_policy_is_not_read_as_one() {
        for text in [
            "",
            "any()",
            "messages=",
            "any(never",
            "tokens=1",
            "all(never;)",
            "mine",
        ] {
            assert!(P::parse(text).is_none(), "{text}");
        }
    }
}
