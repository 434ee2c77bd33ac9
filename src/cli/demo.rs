//! A sample conversation.

use ctxlog::log::{Message, Part};
use ctxlog::strategy::SlidingWindow;
use ctxlog::{Conversation, Error};

use super::commands::status;
use super::errors::Failure;
use super::{Context, args, stores};

/// The name of the sample conversation.
const NAME: &str = "demo/support-4411";

/// Writes the sample where it is not there yet, and shows its status.
pub fn run(cx: &mut Context) -> Result<u8, Failure> {
    let store = stores::created(cx)?;
    let chat = store.conversation(NAME)?;
    if chat.with_projection(|p| p.messages().is_empty())? {
        write(chat.with_strategy(SlidingWindow::new(4))?)?;
    }
    drop(store);
    cx.conversation = Some(NAME.to_owned());
    status::run(cx, &args::Status::default())
}

fn write(chat: Conversation) -> Result<(), Error> {
    chat.append(Message::system("You are a support agent."))?;
    chat.append(Message::person("Where is order 4411?"))?;
    for step in [
        "list_orders",
        "find_parcel",
        "ask_carrier",
        "read_policy",
        "draft_answer",
    ] {
        chat.call()?;
        chat.append(Message::calls(vec![Part::call(
            "call_0",
            step,
            r#"{"order":4411}"#,
        )]))?;
        chat.append(Message::tool("call_0", &format!("{step}: done")))?;
    }
    chat.call()?;
    chat.append(Message::model("It left the warehouse on Monday."))?;
    Ok(())
}
