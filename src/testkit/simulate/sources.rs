//! What the clients of a simulation bring from elsewhere: a transcript and an export.

use crate::audit::export;
use crate::engine::{Seeded, Store};
use crate::formats::Transcript;
use crate::log::{Message, Micros, Part};
use crate::testkit::{Said, Speaker, Words};
use std::sync::Arc;

/// The first steps of a transcript whose source compacted, cleared and rewound.
pub(super) fn transcript(steps: usize) -> Transcript {
    let words = |who, text| Said::Words(who, Words::new(text));
    let said = [
        words(Speaker::System, "You help."),
        words(Speaker::Person, "Where is order 4411?"),
        Said::Called,
        Said::Calls(vec![0, 1]),
        Said::Result(0),
        Said::Result(1),
        Said::Called,
        words(Speaker::Model, "It was shipped."),
        Said::Cleared(vec![0]),
        words(Speaker::Person, "And order 4412?"),
        Said::Called,
        Said::Compacted,
    ];
    Transcript {
        format: "claude-code",
        id: None,
        steps: said.iter().take(steps).map(Said::step).collect(),
        ..Transcript::default()
    }
}

/// The lines of an export; another generation is another log.
pub(super) fn lines(generation: u64) -> Result<Vec<String>, String> {
    let environment = Arc::new(Seeded::new(generation.wrapping_add(1 << 40), Micros(0)));
    let store = Store::in_memory().with_environment(environment);
    let name = taken(generation);
    let fill = || -> Result<_, crate::engine::Error> {
        let chat = store.conversation(&name)?;
        chat.append(Message::person("Look it up."))?;
        chat.append(Message::calls(vec![Part::call("c", "look", "{}")]))?;
        chat.append(Message::tool("c", "found"))?;
        let call = chat.call()?;
        chat.append(Message::model("Here it is."))?;
        chat.returned(call.id, None)?;
        Ok(chat)
    };
    let chat = fill().map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    export(&chat, &mut bytes).map_err(|e| e.to_string())?;
    let text = String::from_utf8(bytes).map_err(|e| e.to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The name that an export's log goes by.
pub(super) fn taken(generation: u64) -> String {
    format!("taken-{generation}")
}
