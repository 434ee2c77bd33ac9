//! Contents of Gemini's `generateContent`: recorded requests and answers, request bodies, answers and
//! bare contents, in camelCase (the Developer API) and in `snake_case` (Vertex, the Python library).
//!
//! A part is a call, a response, media or text by the one field that holds its data. What stands beside
//! that field (`thoughtSignature`) is the part's extra; what stands inside it and has no place in a
//! message is an extra of the field's own name. A response's words are its JSON text.

mod content;
mod read;
mod repair;
mod write;

pub use content::write_content;
pub(crate) use read::{GeminiContents, content, part, source, usage_of};
pub(crate) use write::GenerateContent;

/// The format's name.
pub const FORMAT: &str = "gemini-contents";
