//! A conversation as one HTML page that works offline: the viewer, the lanes, and the words.
//!
//! What comes from a conversation stands in data blocks, as JSON in which no character is left that
//! HTML looks at; the page's script makes text of it and nothing else. The policy in the page's
//! head allows that script and that style by their hashes, and no other host at all.

use std::io::{self, Write};

use serde::Serialize;

use crate::engine::{Content, Conversation};
use crate::log::{BlockBody, Media, Message, PartBody, Seq};

use super::export::ExportError;
use super::lanes::{Lanes, lanes};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// SHA-256 of the script and the style, as the policy names them. A test holds them to the files.
const SCRIPT_HASH: &str = "sha256-HCOVgAVIH/ZyF+pLhCxI5lRW3yd+fMpkpHH2PsaJjs0=";
const STYLE_HASH: &str = "sha256-2fNrMDxUdmAvBaCSEZ2gtDitqslvhLjU99EigeRVH6E=";

/// Bytes of a message's words that a page holds unless more are asked for.
pub const PAGE_WORDS: usize = 64 << 10;

/// How many bytes of words go into one data block: what is read at once when words are looked at.
const BLOCK: usize = 1 << 20;

/// What goes into a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOptions {
    /// Whether the words of messages do.
    pub words: bool,
    /// How many bytes of the words of one message do.
    pub most: usize,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            words: true,
            most: PAGE_WORDS,
        }
    }
}

/// What went into a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paged {
    /// Messages.
    pub messages: u64,
    /// Model calls.
    pub calls: u64,
    /// Contents whose words are not there to the end.
    pub shortened: u64,
    /// Bytes of words that were left out of them.
    pub left_out: u64,
    /// Messages whose words were destroyed.
    pub redacted: u64,
}

/// Writes the page of a conversation at its head.
///
/// # Errors
/// When the log or its words cannot be read, or the output cannot be written.
pub fn page(
    chat: &Conversation,
    options: PageOptions,
    out: &mut dyn Write,
) -> Result<Paged, ExportError> {
    let lanes = lanes(chat)?;
    let mut paged = Paged {
        messages: count(lanes.messages.seq.len()),
        calls: count(lanes.calls.seq.len()),
        redacted: count(lanes.redacted.len()),
        ..Paged::default()
    };
    let mut rest = PAGE;
    while let Some((before, (name, after))) = hole(rest) {
        out.write_all(before.as_bytes())?;
        match name {
            "policy" => write!(out, "{}", policy())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            "lanes" => data(out, &Data::of(&lanes, options))?,
            _ if options.words => words(chat, &lanes, options.most, &mut paged, out)?,
            _ => {}
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(paged)
}

/// What stands before the next hole of the page, its name, and what stands behind it.
fn hole(page: &str) -> Option<(&str, (&str, &str))> {
    let (before, rest) = page.split_once("{{")?;
    Some((before, rest.split_once("}}")?))
}

fn policy() -> String {
    format!(
        "default-src 'none'; script-src '{SCRIPT_HASH}'; style-src '{STYLE_HASH}'; base-uri 'none'; \
         form-action 'none'"
    )
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The lanes as the page takes them.
#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    lanes: &'a Lanes,
    /// Whether the page holds words.
    words: bool,
    /// What a reader should know of them.
    note: Option<String>,
}

impl<'a> Data<'a> {
    fn of(lanes: &'a Lanes, options: PageOptions) -> Self {
        let most = options.most;
        let note = format!("The page holds at most {most} bytes of a message's words.");
        Self {
            lanes,
            words: options.words,
            note: options.words.then_some(note),
        }
    }
}

/// One content of a message, cut to what a page holds.
#[derive(Serialize)]
struct Words {
    message: Seq,
    given: Seq,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    parts: Vec<PartWords>,
    #[serde(skip_serializing_if = "none")]
    more: u64,
}

#[derive(Serialize)]
struct PartWords {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    text: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn none(more: &u64) -> bool {
    *more == 0
}

/// A block of contents.
#[derive(Serialize)]
struct Block {
    schema: &'static str,
    contents: Vec<Words>,
}

/// Writes the words of all contents, in blocks of about a MiB.
fn words(
    chat: &Conversation,
    lanes: &Lanes,
    most: usize,
    paged: &mut Paged,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let (mut contents, mut bytes) = (Vec::new(), 0_usize);
    let mut before = None;
    for (message, given, payload) in given(chat, lanes)? {
        // All contents of a message stand in one block.
        if bytes >= BLOCK && before != Some(message) {
            block(out, std::mem::take(&mut contents))?;
            bytes = 0;
        }
        before = Some(message);
        let words = Words::of(message, given, chat.content(given, payload)?, most);
        paged.shortened = paged.shortened.saturating_add(u64::from(words.more > 0));
        paged.left_out = paged.left_out.saturating_add(words.more);
        let size = words.parts.iter().map(|p| p.text.len());
        bytes = size.fold(bytes, usize::saturating_add);
        contents.push(words);
    }
    block(out, contents)
}

/// The contents of the messages of the lanes: the message, the entry that gave it, the payload. In
/// the order of messages, each once.
fn given(chat: &Conversation, lanes: &Lanes) -> Result<Vec<(Seq, Seq, u32)>, ExportError> {
    let last = lanes.head.map_or(Seq(0), |head| head.seq);
    let mut found = chat.with_projection(|p| {
        let forms = p.messages().iter();
        let forms = forms.flat_map(|m| m.forms.iter().map(|f| (m.id.seq(), f)));
        // What was appended meanwhile is not in the lanes.
        let forms = forms.filter(|(_, f)| f.since.seq <= last);
        forms
            .map(|(id, f)| (id, f.given, f.payload))
            .collect::<Vec<_>>()
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn block(out: &mut dyn Write, contents: Vec<Words>) -> Result<(), ExportError> {
    let (Some(first), Some(last)) = (contents.first(), contents.last()) else {
        return Ok(());
    };
    let (first, last) = (first.message.0, last.message.0);
    write!(
        out,
        "<script type=\"application/json\" class=\"words\" data-first=\"{first}\" data-last=\"{last}\">"
    )?;
    let schema = "ctxlog.words/1";
    data(out, &Block { schema, contents })?;
    Ok(out.write_all(b"</script>\n")?)
}

impl Words {
    fn of(message: Seq, given: Seq, content: Content, most: usize) -> Self {
        let mut words = Self {
            message,
            given,
            redacted: content == Content::Redacted,
            parts: Vec::new(),
            more: 0,
        };
        if let Content::Message(message) = content {
            words.take(&message, most);
        }
        words
    }

    fn take(&mut self, message: &Message, mut room: usize) {
        for part in &message.parts {
            match &part.body {
                PartBody::Block(block) => self.block(block, &mut room),
                PartBody::Reasoning { text, .. } => self.part("reasoning", None, text, &mut room),
                PartBody::Call {
                    name, arguments, ..
                } => self.part("call", Some(name), arguments, &mut room),
                PartBody::Result { name, content, .. } => {
                    self.part("result", name.as_deref(), "", &mut room);
                    content.iter().for_each(|b| self.block(&b.body, &mut room));
                }
            }
        }
    }

    fn block(&mut self, block: &BlockBody, room: &mut usize) {
        match block {
            BlockBody::Text(text) => self.part("text", None, text, room),
            BlockBody::Opaque(name, json) => self.part("opaque", Some(name), &json.0, room),
            BlockBody::Media(media, json) => {
                let kind = match media {
                    Media::Image => "image",
                    Media::Audio => "audio",
                    Media::Video => "video",
                    Media::File => "file",
                };
                let text = format!("[{} bytes]", json.0.len());
                self.part(kind, None, &text, room);
            }
        }
    }

    fn part(&mut self, kind: &'static str, name: Option<&str>, text: &str, room: &mut usize) {
        let mut keep = |text: &str| {
            let kept = text.get(..boundary(text, *room)).unwrap_or("");
            *room = room.saturating_sub(kept.len());
            let cut = text.len().saturating_sub(kept.len());
            self.more = self.more.saturating_add(count(cut));
            kept.to_owned()
        };
        let name = name.map(&mut keep);
        let text = keep(text);
        self.parts.push(PartWords { kind, name, text });
    }
}

/// The most bytes of a text, up to so many, that end with a character.
fn boundary(text: &str, most: usize) -> usize {
    let ends = (0..=most.min(text.len())).rev();
    let mut ends = ends.filter(|end| text.is_char_boundary(*end));
    ends.next().unwrap_or(0)
}

/// Writes a value as JSON that may stand in a data block of a page.
fn data(out: &mut dyn Write, value: &impl Serialize) -> Result<(), ExportError> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    Ok(out.write_all(harmless(&text).as_bytes())?)
}

/// The same JSON without a character that HTML, or an old reader of scripts, acts on. They stand in
/// strings only, where JSON has another way to write them.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn hash(text: &str) -> String {
        format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
    }

    #[test]
    fn the_policy_names_the_script_and_the_style_as_they_are() {
        assert_eq!(hash(SCRIPT), SCRIPT_HASH, "the script changed");
        assert_eq!(hash(STYLE), STYLE_HASH, "the style changed");
    }

    #[test]
    fn what_the_page_brings_itself_ends_no_element_and_names_no_host() {
        for text in [PAGE, STYLE, SCRIPT] {
            assert!(text.is_ascii());
            // But for the name of the meta element that holds the policy.
            let named = text.replace("http-equiv", "");
            assert!(
                !named.contains("//www.") && !named.contains("http"),
                "a host"
            );
            assert!(!text.contains('\r'), "a browser hashes other bytes");
        }
        let script = SCRIPT.to_ascii_lowercase();
        let ways = [
            "innerhtml",
            "outerhtml",
            "insertadjacent",
            "document.write",
            "eval(",
        ];
        for no in ["</script", "<!--", "<script"].iter().chain(&ways) {
            assert!(!script.contains(no), "{no}");
        }
        assert!(!STYLE.contains('<'));
        let holes: Vec<&str> = std::iter::successors(hole(PAGE), |(_, (_, rest))| hole(rest))
            .map(|(_, (name, _))| name)
            .collect();
        assert_eq!(holes, ["policy", "style", "lanes", "script", "words"]);
    }

    proptest! {
        #[test]
        fn data_of_a_page_is_the_same_value_and_nothing_to_html(
            text in "(\\PC|[<>&\u{2028}\u{2029}\u{0}-\u{1f}\"\\\\]|</script>|<!--){0,40}"
        ) {
            let mut out = Vec::new();
            data(&mut out, &text).unwrap();
            let json = String::from_utf8(out).unwrap();
            let acted_on = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!json.contains(acted_on));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        #[test]
        fn words_are_kept_up_to_the_limit_and_the_rest_is_counted(
            texts in prop::collection::vec("(\\PC){0,30}", 0..5), most in 0_usize..80
        ) {
            let all: usize = texts.iter().map(String::len).sum();
            let parts = texts.iter().map(crate::log::Part::text).collect();
            let content = Content::Message(Box::new(Message::calls(parts)));
            let words = Words::of(Seq(1), Seq(1), content, most);
            let kept: usize = words.parts.iter().map(|p| p.text.len()).sum();
            prop_assert!(kept <= most);
            prop_assert_eq!(kept + usize::try_from(words.more).unwrap(), all);
            prop_assert!(all > most || words.more == 0);
            for (part, text) in words.parts.iter().zip(&texts) {
                prop_assert!(text.starts_with(&part.text));
            }
        }
    }
}
