//! The page that `export --format html` writes: what is in it, and, where a browser and node are
//! there, what it does.

#![cfg(all(feature = "cli", unix))]

#[path = "common/browser.rs"]
mod browser;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ctxlog::audit::{PageOptions, Paged, Selector, lanes, page, why, window};
use ctxlog::engine::{Conversation, Store};
use ctxlog::log::{Message, MessageId, Part, Seq};
use ctxlog::store::Level;
use ctxlog::strategy::parse;
use ctxlog::testkit::World;
use ctxlog::testkit::generate::script;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

fn paged(chat: &Conversation, options: PageOptions) -> (String, Paged) {
    let mut out = Vec::new();
    let paged = page(chat, options, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), paged)
}

/// The data blocks of a page whose opening tags begin so.
fn blocks(html: &str, tag: &str) -> Vec<Value> {
    let after = html.split(tag).skip(1);
    let texts = after.map(|t| {
        t.split_once('>')
            .unwrap()
            .1
            .split("</script>")
            .next()
            .unwrap()
    });
    texts.map(|t| serde_json::from_str(t).unwrap()).collect()
}

const WORDS: &str = "<script type=\"application/json\" class=\"words\"";
const DATA: &str = "<script type=\"application/json\" id=\"data\"";

fn tags(html: &str) -> usize {
    html.matches('<').count()
}

/// What broke pages that show what a model or a web site said.
const HOSTILE: [&str; 12] = [
    "</script><script>window.pwned=1</script>",
    "<!--<script>window.pwned=2",
    "--></script ><img src=x onerror=window.pwned=3>",
    "]]><svg/onload=window.pwned=4>",
    "{{script}} {{words}} {{lanes}}",
    "\u{1b}[31mred\u{1b}]0;title\u{7}",
    "\u{202e}txt.exe\u{2066}",
    "line\u{2028}line\u{2029}paragraph",
    "&lt;b&gt;&amp;&#x3c;",
    "\u{0}\u{8}\u{feff}\u{fffd}",
    "\\u003cscript\\u003e \\ud800 \"'`${window.pwned=5}",
    "javascript:window.pwned=6",
];

fn talk(texts: &[String]) -> Conversation {
    let chat = Store::in_memory().conversation("a").unwrap();
    for text in texts {
        chat.append(Message::person(text.as_str())).unwrap();
        let call = Part::call("c", text.as_str(), text.as_str());
        chat.append(Message::calls(vec![call])).unwrap();
        chat.append(Message::tool("c", text.as_str())).unwrap();
        chat.call().unwrap();
    }
    chat
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_page_holds_the_words_as_they_are_and_they_make_no_element(
        texts in prop::collection::vec(prop_oneof![
            prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
            "(\\PC|[<>&\u{2028}\u{2029}\"'\\\\]|</script|<!--){1,40}",
        ], 1..5)
    ) {
        let plain: Vec<String> = texts.iter().map(|_| "plain".to_owned()).collect();
        let bare = tags(&paged(&talk(&plain), PageOptions { words: false, ..PageOptions::default() }).0);
        let (html, said) = paged(&talk(&texts), PageOptions::default());
        let words = blocks(&html, WORDS);
        prop_assert_eq!(tags(&html), bare + 2 * words.len());
        prop_assert_eq!(html.matches("<script").count(), 2 + words.len());
        prop_assert_eq!((said.shortened, said.left_out), (0, 0));
        let contents: Vec<&Value> = words.iter().flat_map(|b| b["contents"].as_array().unwrap()).collect();
        prop_assert_eq!(contents.len(), 3 * texts.len());
        for (content, text) in contents.iter().zip(texts.iter().flat_map(|t| [t; 3])) {
            let part = content["parts"].as_array().unwrap().last().unwrap();
            prop_assert_eq!(part["text"].as_str(), Some(text.as_str()));
        }
    }

    #[test]
    fn lanes_hold_every_window_that_there_was(script in script()) {
        let world = World::run(&script, &[]).unwrap();
        let value = serde_json::to_value(lanes(&world.chat).unwrap()).unwrap();
        let column = |table: &str, name: &str| -> Vec<u64> {
            value[table][name].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
        };
        let (seqs, places) = (column("messages", "seq"), column("messages", "place"));
        let lives = ["message", "entered", "left"].map(|c| column("lives", c));
        let head = world.chat.head().unwrap().unwrap().seq;
        for n in 0..=head.0 {
            let there = (0..lives[0].len()).filter(|i| lives[1][*i] <= n && (lives[2][*i] == 0 || lives[2][*i] > n));
            let mut there: Vec<(u64, u64)> = there
                .map(|i| usize::try_from(lives[0][i]).unwrap())
                .map(|m| (places[m], seqs[m]))
                .collect();
            there.sort_unstable();
            let window = world.chat.window_after(Seq(n)).unwrap();
            let items: Vec<(u64, u64)> = window.items.iter().map(|i| (i.place.0, i.id.seq().0)).collect();
            prop_assert_eq!(there, items, "after s:{}", n);
        }
    }
}

#[test]
fn a_page_without_words_has_no_word_of_a_message() {
    let chat = talk(&["a secret".to_owned()]);
    let (html, said) = paged(
        &chat,
        PageOptions {
            words: false,
            ..PageOptions::default()
        },
    );
    assert!(!html.contains("a secret"));
    assert!(blocks(&html, WORDS).is_empty());
    assert_eq!(blocks(&html, DATA)[0]["words"], false);
    assert_eq!((said.messages, said.calls), (3, 1));
}

#[test]
fn lanes_hold_no_word_of_a_message() {
    let chat = talk(&["a secret".to_owned()]);
    let lanes = serde_json::to_string(&lanes(&chat).unwrap()).unwrap();
    assert!(lanes.starts_with("{\"schema\":\"ctxlog.lanes/1\""));
    assert!(!lanes.contains("a secret"));
}

#[test]
fn what_was_cut_is_said_in_the_page_and_by_the_writer() {
    let chat = talk(&["\u{e9}".repeat(100)]);
    let (html, said) = paged(
        &chat,
        PageOptions {
            most: 15,
            ..PageOptions::default()
        },
    );
    let contents = &blocks(&html, WORDS)[0]["contents"];
    assert_eq!(contents[0]["parts"][0]["text"], "\u{e9}".repeat(7));
    assert_eq!(contents[0]["more"], 186);
    assert_eq!((said.shortened, said.left_out), (3, 186 + 386 + 186));
}

#[test]
fn a_redacted_message_is_redacted_in_the_page() {
    let chat = talk(&["a secret".to_owned()]);
    let backend = chat.store().backend();
    backend
        .destroy_payload(chat.id(), Seq(1), 0, Level::Synced)
        .unwrap();
    let (html, said) = paged(&chat, PageOptions::default());
    assert_eq!(said.redacted, 1);
    assert_eq!(blocks(&html, DATA)[0]["redacted"], json!([1]));
    let first = &blocks(&html, WORDS)[0]["contents"][0];
    assert_eq!(
        (&first["redacted"], &first["parts"]),
        (&json!(true), &json!([]))
    );
}

/// What the browser has to show of a conversation: some windows, some stories.
fn expected(chat: &Conversation, name: &str, dir: &Path, every: usize) -> Value {
    let path = dir.join(format!("{name}.html"));
    let mut out = Vec::new();
    page(chat, PageOptions::default(), &mut out).unwrap();
    std::fs::write(&path, out).unwrap();
    let head = chat.head().unwrap().unwrap().seq;
    let (ids, calls) = chat
        .with_projection(|p| {
            let ids: Vec<MessageId> = p.messages().iter().map(|m| m.id).collect();
            (ids, p.sent().len())
        })
        .unwrap();
    let windows: Vec<Value> = (1..=calls)
        .step_by(every)
        .map(|n| {
            let at: Selector = format!("it:{n}").parse().unwrap();
            let shown = window(chat, at.resolve(chat).unwrap()).unwrap();
            let ids: Vec<&str> = shown.messages.iter().map(|m| m.id.as_str()).collect();
            json!({ "iteration": n, "messages": ids })
        })
        .collect();
    let stories = ids.iter().step_by(every);
    let whys: Vec<_> = stories.map(|id| why(chat, *id, head).unwrap()).collect();
    json!({ "name": name, "page": path, "title": format!("{} - ctxlog", chat.name()), "windows": windows, "whys": whys })
}

/// 10,000 messages and 2,000 calls.
fn large() -> Conversation {
    let store = Store::in_memory().with_level(Level::Buffered);
    let chat = store.conversation("large").unwrap();
    let chain = [
        "clear-tool-results:age=10",
        "token-budget:limit=12000,measure=estimate",
    ];
    let chain = chain.map(|spec| parse(spec).unwrap()).to_vec();
    let chat = chat.with_strategies(chain).unwrap();
    for turn in 0..2_000 {
        let words = format!("question {turn} {}", "and more of it ".repeat(turn % 17));
        chat.append(Message::person(words.as_str())).unwrap();
        chat.append(Message::calls(vec![Part::call("c", "find", "{\"a\":1}")]))
            .unwrap();
        chat.append(Message::tool("c", &"found it ".repeat(turn % 91)))
            .unwrap();
        chat.append(Message::calls(vec![Part::text("done")]))
            .unwrap();
        chat.append(Message::model(format!("answer {turn}")))
            .unwrap();
        chat.call().unwrap();
    }
    chat
}

fn hostile() -> Conversation {
    let store = Store::in_memory();
    let chat = store
        .conversation("</title><script>window.pwned=7</script>")
        .unwrap();
    let chat = chat
        .with_strategies(vec![parse("sliding-window:keep=9").unwrap()])
        .unwrap();
    for text in HOSTILE {
        chat.append(Message::person(text)).unwrap();
        let call = Part::call("c", text, text);
        chat.append(Message::calls(vec![call])).unwrap();
        chat.append(Message::tool("c", text)).unwrap();
        chat.append(Message::model("done")).unwrap();
        chat.call().unwrap();
    }
    chat.append(Message::person("word ".repeat(200_000)))
        .unwrap();
    chat.append(Message::model("m".repeat(1 << 20))).unwrap();
    chat.call().unwrap();
    let backend = store.backend();
    backend
        .destroy_payload(chat.id(), Seq(2), 0, Level::Synced)
        .unwrap();
    chat
}

/// The demo, by the program itself: page, windows and stories.
fn demo(dir: &Path) -> Value {
    let run = |arguments: &[&str]| -> Vec<u8> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxlog"));
        command.arg("--store").arg(dir.join("demo")).args(arguments);
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    let json = |arguments: &[&str]| -> Value { serde_json::from_slice(&run(arguments)).unwrap() };
    run(&["demo"]);
    let path = dir.join("demo.html");
    run(&["export", "--format", "html", "-o", path.to_str().unwrap()]);
    let calls = json(&["status", "--json"])["iteration"].as_u64().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let windows: Vec<Value> = (1..=calls)
        .map(|n| {
            let shown = json(&["window", "--at", &format!("it:{n}"), "--json"]);
            let messages = shown["messages"].as_array().unwrap().iter();
            let ids: Vec<String> = messages
                .map(|m| m["id"].as_str().unwrap().to_owned())
                .collect();
            seen.extend(ids.iter().cloned());
            json!({ "iteration": n, "messages": ids })
        })
        .collect();
    let whys = seen
        .iter()
        .step_by(4)
        .map(|id| json(&["why", id, "--json"]));
    let whys: Vec<Value> = whys.collect();
    json!({
        "name": "demo", "page": path, "title": "demo/support-4411 - ctxlog", "windows": windows, "whys": whys,
        "screenshot": std::env::var_os("CTXLOG_SCREENSHOT").map(|p| p.to_string_lossy().into_owned()),
        "pick": "m18", "at": calls.min(34),
    })
}

#[test]
fn a_browser_shows_what_the_command_line_says() {
    let Some(browser) = browser::there() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut cases = vec![demo(dir.path())];
    cases.push(expected(&large(), "large", dir.path(), 97));
    let mut case = expected(&hostile(), "hostile", dir.path(), 1);
    case["hostile"] = json!([
        { "find": "</script><script>", "message": "m3", "shown": "</script><script>window.pwned=1</script>" },
        { "find": "]0;title", "message": "m31", "shown": "\\u{1b}[31mred\\u{1b}]0;title\\u{7}" },
        { "find": "txt.exe", "message": "m37", "shown": "\\u{202e}txt.exe\\u{2066}" },
    ]);
    cases.push(case);
    let mut runner = TestRunner::deterministic();
    for n in 0..12 {
        let script = script().new_tree(&mut runner).unwrap().current();
        let world = World::run(&script, &[]).unwrap();
        let chat = Arc::new(world.chat.clone());
        if !chat.with_projection(|p| p.messages().is_empty()).unwrap() {
            cases.push(expected(&chat, &format!("strange-{n}"), dir.path(), 1));
        }
    }
    let plan = dir.path().join("plan.json");
    let text = json!({ "browser": browser, "cases": cases }).to_string();
    std::fs::write(&plan, text).unwrap();
    browser::run(&plan);
}
