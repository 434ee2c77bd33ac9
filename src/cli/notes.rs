//! What a person should know about a file that was imported.

use std::collections::BTreeMap;

use super::{Context, human, output};

/// The notes of one file: place and words.
pub struct Notes<'a> {
    file: &'a str,
    all: Vec<(String, String)>,
}

impl<'a> Notes<'a> {
    pub const fn new(file: &'a str) -> Self {
        Self {
            file,
            all: Vec::new(),
        }
    }

    /// Adds notes; a place without the file gets it.
    pub fn extend(&mut self, notes: impl IntoIterator<Item = (String, String)>) {
        for (place, what) in notes {
            let known = place.starts_with(self.file);
            let place = if known {
                place
            } else {
                format!("{}: {place}", self.file)
            };
            self.all.push((place, what));
        }
    }

    /// Tells them on stderr: every one, for people equal ones together.
    pub fn tell(self, cx: &Context) {
        if cx.json {
            for (place, message) in self.all {
                let line = serde_json::json!({ "note": { "place": place, "message": message } });
                output::note(&human::escape_json(&line.to_string()));
            }
            return;
        }
        self.together()
            .iter()
            .for_each(|line| output::note(&human::escape(line)));
    }

    fn together(self) -> Vec<String> {
        let mut order: Vec<String> = Vec::new();
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (place, what) in self.all {
            let at = places.entry(what.clone()).or_default();
            if at.is_empty() {
                order.push(what);
                at.push(place);
            } else {
                // The file's name once is enough.
                let rest = place.strip_prefix(self.file).unwrap_or(&place);
                at.push(rest.trim_start_matches([':', ' ']).to_owned());
            }
        }
        let line = |what: String| {
            let at = places.remove(&what).unwrap_or_default();
            let times = if at.len() > 1 {
                format!(" ({} times)", at.len())
            } else {
                String::new()
            };
            format!("note: {}: {what}{times}", at.join(", "))
        };
        order.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Notes;

    #[test]
    fn equal_notes_stand_together_with_all_their_places() {
        let mut notes = Notes::new("a.jsonl");
        let note = |place: &str, what: &str| (place.to_owned(), what.to_owned());
        notes.extend([
            note("a.jsonl:3", "x"),
            note("a.jsonl:4", "y"),
            note("step 7", "x"),
        ]);
        let lines = notes.together();
        assert_eq!(
            lines,
            ["note: a.jsonl:3, step 7: x (2 times)", "note: a.jsonl:4: y"]
        );
    }
}
