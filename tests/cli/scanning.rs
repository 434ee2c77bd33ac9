//! `scan`, and folders as what is imported.

use std::fs;

use super::support::Place;

const ONE: &str = "3f2a9c1e-5b7d-4e21-9c3a-000000000001";
const TWO: &str = "3f2b9c1e-5b7d-4e21-9c3a-000000000002";

fn session(id: &str) -> String {
    let line = |kind: &str, uuid: &str, parent: &str, role: &str, words: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"{id}","cwd":"/data/shop","message":{{"role":"{role}","content":"{words}"}}}}"#
        )
    };
    let first = line("user", "a", "null", "user", "Why is the cart empty?");
    let second = line("assistant", "b", "\"a\"", "assistant", "It is not.");
    format!("{first}\n{second}\n")
}

fn home(place: &Place) {
    let folder = place.path("home/.claude/projects/-data-shop");
    fs::create_dir_all(&folder).unwrap();
    for id in [ONE, TWO] {
        fs::write(folder.join(format!("{id}.jsonl")), session(id)).unwrap();
    }
    fs::write(folder.join("notes.md"), "no transcript").unwrap();
}

#[test]
fn a_session_is_found_by_the_beginning_of_its_id_and_imported() {
    let place = Place::new();
    home(&place);
    let listed = place.run(&["--json", "scan", "--home", "home"]).done().out;
    let ids: Vec<String> = listed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["session"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().any(|id| id == ONE) && ids.iter().any(|id| id == TWO));
    assert!(!place.store().exists(), "listing writes nothing");
    let several = place.run(&["scan", "--home", "home", "--import", "3f2"]);
    assert_eq!(several.code, 1, "{}", several.err);
    place
        .run(&["scan", "--home", "home", "--import", "3f2b"])
        .done();
    let names = place.run(&["ls"]).done().out;
    assert!(names.contains(TWO) && !names.contains(ONE), "{names}");
}

#[test]
fn where_no_agent_was_nothing_is_found() {
    let place = Place::new();
    let nothing = place.run(&["scan", "--home", "nowhere"]);
    assert_eq!(nothing.code, 1, "{}", nothing.err);
    assert_eq!(place.run(&["scan", "--agent", "nobody"]).code, 2);
}

#[test]
fn a_folder_and_a_pattern_are_all_their_transcripts() {
    let place = Place::new();
    home(&place);
    fs::create_dir(place.path("empty")).unwrap();
    let imported = place.run(&["import", "home/.claude"]).done();
    assert!(imported.err.contains("notes.md"), "{}", imported.err);
    let names = place.run(&["ls"]).done().out;
    for id in [ONE, TWO] {
        assert!(
            names.contains(&format!("projects/-data-shop/{id}")),
            "{names}"
        );
    }
    let again = place.run(&["import", "home/.claude"]).done().out;
    assert!(again.contains("0 entries added"), "{again}");
    place
        .run(&["--store", "b", "import", "home/.claude/*/*/3f2b*"])
        .done();
    let names = place.run(&["--store", "b", "ls"]).done().out;
    assert!(names.contains(TWO) && !names.contains(ONE), "{names}");
    assert_eq!(place.run(&["import", "home/*.json"]).code, 2);
    assert_eq!(place.run(&["import", "empty"]).code, 2);
    // A file that is named itself has to be a transcript.
    let named = place.run(&["import", "home/.claude/projects/-data-shop/notes.md"]);
    assert_eq!(named.code, 2, "{}", named.err);
}
