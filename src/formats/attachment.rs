//! What a media block holds, whatever provider's terms it is in.

use super::json::{self, Writer};
use crate::log::{Fields, Json};

/// The content of a media block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Attachment {
    /// Bytes as base64, of a MIME type.
    Bytes { mime: String, data: String },
    /// An address, and what is known of the type of what is there.
    Link { url: String, mime: Option<String> },
    /// Plain text.
    Words(String),
}

/// MIME types by the endings of names; the first of a type is the one that is written.
const ENDINGS: [(&str, &str); 26] = [
    ("png", "image/png"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("md", "text/markdown"),
    ("txt", "text/plain"),
    ("doc", "application/msword"),
    ("xls", "application/vnd.ms-excel"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("mp4", "video/mp4"),
    ("mov", "video/quicktime"),
    ("webm", "video/webm"),
    ("mkv", "video/x-matroska"),
    ("flv", "video/x-flv"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("wmv", "video/x-ms-wmv"),
    ("three_gp", "video/3gpp"),
    ("mp3", "audio/mpeg"),
    ("mp3", "audio/mp3"),
    ("wav", "audio/wav"),
];

/// The MIME type of names with this ending.
pub(crate) fn mime_of(ending: &str) -> Option<&'static str> {
    let mut known = ENDINGS.iter();
    known
        .find(|(name, _)| *name == ending)
        .map(|(_, mime)| *mime)
}

/// The ending of names of this MIME type.
pub(crate) fn ending_of(mime: &str) -> Option<&'static str> {
    let mut known = ENDINGS.iter();
    known
        .find(|(_, known)| *known == mime)
        .map(|(name, _)| *name)
}

impl Attachment {
    /// Reads a block of any provider; `None` of one that only its provider can resolve.
    pub(crate) fn read(block: &Json) -> Option<Self> {
        let fields = json::object(block)?;
        gemini(&fields)
            .or_else(|| bedrock(&fields))
            .or_else(|| typed(&fields))
    }

    /// An address: its bytes where it holds them.
    fn at(url: &str) -> Option<Self> {
        if let Some((mime, data)) = url
            .strip_prefix("data:")
            .and_then(|u| u.split_once(";base64,"))
        {
            let (mime, data) = (mime.to_owned(), data.to_owned());
            return Some(Self::Bytes { mime, data });
        }
        let schemes = ["https://", "http://", "gs://", "s3://"];
        let whole = schemes.iter().any(|scheme| url.starts_with(scheme));
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let ending = path.rsplit_once('.').map(|(_, ending)| ending);
        let mime = ending.and_then(|e| mime_of(&e.to_lowercase()));
        whole.then(|| Self::Link {
            url: url.to_owned(),
            mime: mime.map(str::to_owned),
        })
    }
}

/// A block of a text.
pub(crate) fn text_block(words: &str) -> Json {
    let mut out = Writer::default();
    out.text("type", "text").text("text", words).finish()
}

/// A media block that is plain text, as a block of a text.
pub(crate) fn as_text(block: &Json) -> Option<Json> {
    match Attachment::read(block)? {
        Attachment::Words(words) => Some(text_block(&words)),
        _ => None,
    }
}

fn either(fields: &Fields, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| json::text_field(fields, name))
}

fn inner(fields: &Fields, names: &[&str]) -> Option<Fields> {
    let mut found = names.iter().filter_map(|name| json::field(fields, name));
    found.find_map(json::object)
}

fn gemini(fields: &Fields) -> Option<Attachment> {
    let mime = |data: &Fields| either(data, &["mimeType", "mime_type"]);
    if let Some(data) = inner(fields, &["inlineData", "inline_data"]) {
        let (mime, data) = (mime(&data)?, json::text_field(&data, "data")?);
        return Some(Attachment::Bytes { mime, data });
    }
    let data = inner(fields, &["fileData", "file_data"])?;
    let url = either(&data, &["fileUri", "file_uri"])?;
    let mime = mime(&data);
    Some(Attachment::Link { url, mime })
}

fn bedrock(fields: &Fields) -> Option<Attachment> {
    let media = inner(fields, &["image", "document", "video", "audio"])?;
    let source = inner(&media, &["source"])?;
    let format = json::text_field(&media, "format");
    let mime = format
        .and_then(|format| mime_of(&format))
        .map(str::to_owned);
    if let Some(data) = json::text_field(&source, "bytes") {
        return Some(Attachment::Bytes { mime: mime?, data });
    }
    if let Some(words) = json::text_field(&source, "text") {
        return Some(Attachment::Words(words));
    }
    let url = json::text_field(&inner(&source, &["s3Location"])?, "uri")?;
    Some(Attachment::Link { url, mime })
}

/// Blocks that name their type: those of Anthropic, of OpenAI and of what was made after them.
fn typed(fields: &Fields) -> Option<Attachment> {
    let kind = json::text_field(fields, "type")?;
    if let Some(source) = inner(fields, &["source"]) {
        return sourced(&source);
    }
    if kind == "input_audio" {
        let audio = inner(fields, &["input_audio"])?;
        let (data, format) = (
            json::text_field(&audio, "data")?,
            json::text_field(&audio, "format")?,
        );
        let mime = format!("audio/{format}");
        return Some(Attachment::Bytes { mime, data });
    }
    let mime = either(
        fields,
        &["mime_type", "mimeType", "mediaType", "media_type"],
    );
    if let (Some(mime), Some(data)) = (mime, either(fields, &["base64", "data"]))
        && !data.contains(':')
    {
        return Some(Attachment::Bytes { mime, data });
    }
    let named = inner(fields, &[&kind]);
    let url = ["url", "file_data", "image_url", "file_url"];
    let url = named.and_then(|named| either(&named, &url));
    let url = url.or_else(|| {
        let flat = [
            "url",
            "image_url",
            "file_data",
            "file_url",
            "video_url",
            "document_url",
        ];
        either(fields, &flat)
    });
    Attachment::at(&url?)
}

fn sourced(source: &Fields) -> Option<Attachment> {
    let data = || json::text_field(source, "data");
    match json::text_field(source, "type")?.as_str() {
        "base64" => Some(Attachment::Bytes {
            mime: json::text_field(source, "media_type")?,
            data: data()?,
        }),
        "text" => data().map(Attachment::Words),
        "url" => Attachment::at(&json::text_field(source, "url")?),
        _ => None,
    }
}
