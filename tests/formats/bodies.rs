//! Laws of request bodies that hold for every provider, asked of one.

use std::collections::HashSet;

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Format, Item, Link, Profile, Rendered, Transcript, render};
use ctxlog::log::{Author, BlockBody, Message, PartBody, Role, Seq};
use serde_json::Value;

use super::common::{Log, log_of, settings};
use super::counts::every;
use super::driver;

/// A provider's bodies.
pub struct Own {
    pub profile: Profile,
    /// The list of messages in a body.
    pub list: &'static str,
    /// Where the answer's message is in a response.
    pub answer: &'static str,
    /// Soft rules that rendering makes hold all the same.
    pub also: &'static [&'static str],
}

impl Own {
    pub fn format(&self) -> &'static str {
        self.profile.name()
    }

    pub fn read(&self, bytes: &[u8]) -> Vec<Transcript> {
        let format = Format::from_name(self.format()).unwrap();
        format.read(&mut &*bytes, "f", 1 << 24).unwrap()
    }

    pub fn messages<'a>(&self, body: &'a Value) -> &'a [Value] {
        body[self.list].as_array().map_or(&[], Vec::as_slice)
    }

    fn hard(&self, body: &Value) -> Vec<String> {
        driver::hard(self.profile, body)
    }

    /// Whether rendering has nothing to do.
    pub fn is_sound(&self, body: &Value) -> bool {
        let acts = |p: &ctxlog::formats::Problem| p.hard || self.also.contains(&p.rule);
        !lint(self.profile, body).iter().any(acts)
    }

    pub fn draw(&self, items: &[Item<'_>], transcript: &Transcript, as_is: bool) -> Rendered {
        let settings = settings(transcript);
        render(
            self.profile,
            items,
            &settings,
            transcript.format,
            None,
            as_is,
        )
    }

    /// What was sent is what a window as it is gives, settings and all; so is the answer.
    pub fn gives_recorded_requests_back(&self) {
        driver::each(self.profile, |record, transcript, place| {
            let request = &record["request"];
            let log = log_of(transcript, false);
            let sent = self.draw(&log.items(), transcript, true);
            assert_eq!(&body(&sent), request, "{place}");
            assert_eq!(sent.repairs, [], "{place}");
            let log = log_of(transcript, true);
            let whole = body(&self.draw(&log.items(), transcript, true));
            let answer = record["response"].pointer(self.answer);
            let mut all = self.messages(request).to_vec();
            all.extend(answer.filter(|a| a.is_object()).cloned());
            assert_eq!(self.messages(&whole), all, "{place}");
        });
    }

    /// What breaks no rule is not changed; what breaks one is, and breaks none then.
    pub fn repairs_recorded_requests_where_they_are_broken(&self) {
        driver::each(self.profile, |_, transcript, place| {
            for whole in [false, true] {
                let log = log_of(transcript, whole);
                let as_is = body(&self.draw(&log.items(), transcript, true));
                let repaired = self.draw(&log.items(), transcript, false);
                let repairs = &repaired.repairs;
                assert_eq!(self.hard(&body(&repaired)), [""; 0], "{place}");
                if self.is_sound(&as_is) {
                    assert_eq!(repairs, &[], "{place}");
                    assert_eq!(body(&repaired), as_is, "{place}");
                } else {
                    assert_ne!(repairs, &[], "{place}");
                }
            }
        });
    }

    /// Recorded conversations of every format make sound bodies, whole and in parts.
    pub fn takes_recorded_files_of_every_format(&self) {
        let mut seed = 7_u64;
        every(|_, (n, transcript), place| {
            if n < 60 {
                let log = log_of(transcript, true);
                self.takes_parts(&log, transcript, &mut seed, place);
            }
        });
    }

    fn takes_parts(&self, log: &Log, transcript: &Transcript, seed: &mut u64, what: &str) {
        let items = log.items();
        self.is_taken(log, &items, transcript, what);
        for keep in [1, 2, 5] {
            let mut drawn = |_: &_| {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (*seed >> 33) % 6 >= keep
            };
            let some: Vec<Item<'_>> = items.iter().copied().filter(&mut drawn).collect();
            self.is_taken(log, &some, transcript, what);
        }
    }

    /// Checks what has to hold for any items of any source.
    pub fn is_taken(
        &self,
        log: &Log,
        items: &[Item<'_>],
        transcript: &Transcript,
        what: &str,
    ) -> Rendered {
        let rendered = self.draw(items, transcript, false);
        let body = body(&rendered);
        let told = || format!("{what}\n{body:#}\n{:#?}", rendered.repairs);
        assert_eq!(self.hard(&body), [""; 0], "{}", told());
        let messages = self.messages(&body);
        assert_eq!(rendered.places.len(), messages.len(), "{}", told());
        let mut leaves = HashSet::new();
        texts(&body, &mut leaves);
        for item in items {
            for words in words_of(item.message) {
                assert!(leaves.contains(words), "lost '{words}': {}", told());
            }
        }
        let known: Vec<Seq> = log.messages.iter().map(|m| m.seq).collect();
        let shown = |place: &Seq| known.contains(place) || *place == Seq(0);
        assert!(rendered.places.iter().all(shown), "{}", told());
        rendered
    }

    /// A window that grew at its end begins with the messages it had, where what came needed no
    /// repair; the last of them may have been joined by more.
    pub fn begins_as_it_began(&self, log: &Log) -> usize {
        let items = log.items();
        let whole = self.draw(&items, &live(""), false);
        let unjoined = |rendered: &Rendered| {
            let joins = |r: &&ctxlog::formats::Repair| r.rule != "B2" && r.rule != "B8";
            rendered
                .repairs
                .iter()
                .filter(joins)
                .cloned()
                .collect::<Vec<_>>()
        };
        let long = body(&whole);
        let mut compared = 0;
        for end in 1..items.len() {
            let reaches_back = |item: &Item<'_>| {
                let calls = item.answers.iter().flatten().map(|(seq, _)| *seq);
                let beside = [item.same_source, item.continues];
                let mut others = calls.chain(beside.into_iter().flatten());
                others.any(|seq| seq < items[end].seq)
            };
            let short = self.draw(&items[..end], &live(""), false);
            if items[end..].iter().any(reaches_back) || unjoined(&short) != unjoined(&whole) {
                continue;
            }
            let short = body(&short);
            let kept = self.messages(&short).split_last().unwrap().1;
            assert!(
                self.messages(&long).starts_with(kept),
                "{short:#}\n{long:#}"
            );
            compared += 1;
        }
        compared
    }

    /// A body that is sound comes back as it is, whether its rules are made to hold or not.
    pub fn keeps_what_is_sound(&self, sound: &Value) {
        let bytes = sound.to_string();
        let read = self.read(bytes.as_bytes());
        let [transcript] = &read[..] else {
            panic!("{} conversations in {sound:#}", read.len());
        };
        let log = log_of(transcript, true);
        let as_is = self.draw(&log.items(), transcript, true);
        assert_eq!(&body(&as_is), sound, "as it is");
        let repaired = self.draw(&log.items(), transcript, false);
        if self.is_sound(sound) {
            assert_eq!(&body(&repaired), sound, "{:#?}", repaired.repairs);
            assert_eq!(repaired.repairs, []);
        }
        // What was repaired once is sound.
        let again = self.read(repaired.body.as_bytes());
        let log = log_of(&again[0], true);
        let again = self.draw(&log.items(), &again[0], false);
        assert_eq!(again.repairs, [], "{:#?}", repaired.body);
    }
}

pub fn body(rendered: &Rendered) -> Value {
    serde_json::from_str(&rendered.body).unwrap()
}

/// Every text of a value.
fn texts(value: &Value, into: &mut HashSet<String>) {
    match value {
        Value::String(text) => drop(into.insert(text.clone())),
        Value::Array(values) => values.iter().for_each(|v| texts(v, into)),
        Value::Object(fields) => fields.values().for_each(|v| texts(v, into)),
        _ => {}
    }
}

/// The words that no rule and no other provider's terms may cost.
fn words_of(message: &Message) -> impl Iterator<Item = &str> {
    let spoken = matches!(
        message.role,
        Role::User | Role::Assistant | Role::System | Role::Developer
    );
    let parts = message.parts.iter().filter(move |_| spoken);
    parts.filter_map(|part| match &part.body {
        PartBody::Block(BlockBody::Text(text)) if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// Messages by the source message each is of.
pub type Groups = Vec<Vec<Message>>;

/// A log of these, in their order.
pub fn laid_out(groups: Groups) -> Log {
    let mut log = Log::default();
    for group in groups {
        let first = log.messages.len();
        for (n, message) in group.into_iter().enumerate() {
            // Words behind results are of one source message with them.
            let role = |n: usize| &log.messages[n].message.role;
            let beside = n > 0 && message.role == Role::User && *role(first + n - 1) == Role::Tool;
            let link = if beside {
                Link::SameSource(first + n - 1)
            } else {
                Link::None
            };
            log.push(message, link);
        }
    }
    log
}

/// A transcript without settings, for messages that no source gave.
pub fn live(format: &'static str) -> Transcript {
    Transcript {
        format,
        ..Transcript::default()
    }
}

/// Which calls the results of a log answer, by a number that both carry in their words.
pub fn numbered(calls: &[(usize, Option<&str>)], answered: &[usize]) -> Log {
    let mut log = Log::of([Message::person("go")]);
    let call = |(n, (name, id)): (usize, &(usize, Option<&str>))| {
        let arguments = format!(r#"{{"n":{n}}}"#);
        let mut part = ctxlog::log::Part::call("", &format!("f{name}"), &arguments);
        if let PartBody::Call { id: given, .. } = &mut part.body {
            *given = id.map(str::to_owned);
        }
        part
    };
    let parts: Vec<_> = calls.iter().enumerate().map(call).collect();
    log.push(
        Message::new(Role::Assistant, Author::Model, parts),
        Link::None,
    );
    let calls_at = log.messages[1].seq;
    for n in answered {
        let result = Message::tool("", &format!("r{n}"));
        log.push(result, Link::None);
        let last = log.messages.last_mut().unwrap();
        let at = u32::try_from(*n).unwrap();
        last.answers = vec![Some((calls_at, at))];
    }
    log
}
