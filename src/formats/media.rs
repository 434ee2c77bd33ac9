//! Media blocks of one provider in the terms of the other.

use super::json::{self, Writer};
use crate::log::{Fields, Json};

/// A media block as OpenAI chat content; `None` where it has no counterpart there.
pub(crate) fn to_openai(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let kind = json::text_field(&fields, "type")?;
    match kind.as_str() {
        "image_url" | "input_audio" | "file" | "video_url" => Some(block.clone()),
        "image" => {
            let mut url = Writer::default();
            Some(wrapped(
                "image_url",
                &url.text("url", &image_url(&source(&fields)?)?).finish(),
            ))
        }
        "document" => document_to_openai(&fields),
        _ => None,
    }
}

fn wrapped(kind: &str, inner: &Json) -> Json {
    let mut out = Writer::default();
    out.text("type", kind).field(kind, &inner.0).finish()
}

fn source(fields: &Fields) -> Option<Fields> {
    json::object(json::field(fields, "source")?)
}

fn image_url(source: &Fields) -> Option<String> {
    match json::text_field(source, "type")?.as_str() {
        "url" => json::text_field(source, "url"),
        "base64" => data_url(source),
        _ => None,
    }
}

fn data_url(source: &Fields) -> Option<String> {
    let media = json::text_field(source, "media_type")?;
    Some(format!(
        "data:{media};base64,{}",
        json::text_field(source, "data")?
    ))
}

fn document_to_openai(fields: &Fields) -> Option<Json> {
    let source = source(fields)?;
    if json::text_field(&source, "type")? == "text" {
        let mut text = Writer::default();
        let words = json::text_field(&source, "data")?;
        return Some(text.text("type", "text").text("text", &words).finish());
    }
    let title = json::text_field(fields, "title").unwrap_or_else(|| "document".to_owned());
    let mut file = Writer::default();
    file.text("filename", &title)
        .text("file_data", &data_url(&source)?);
    Some(wrapped("file", &file.finish()))
}

/// A media block as Anthropic content; `None` where it has no counterpart there.
pub(crate) fn to_anthropic(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let kind = json::text_field(&fields, "type")?;
    let inner = || json::object(json::field(&fields, &kind)?);
    match kind.as_str() {
        "image" | "document" => Some(block.clone()),
        "image_url" => {
            let url = json::text_field(&inner()?, "url")?;
            Some(with_source("image", &url_source(&url)?))
        }
        "file" => {
            let url = json::text_field(&inner()?, "file_data")?;
            let source = url_source(&url).filter(|_| url.starts_with("data:application/pdf"))?;
            Some(with_source("document", &source))
        }
        _ => None,
    }
}

fn with_source(kind: &str, source: &Json) -> Json {
    let mut out = Writer::default();
    out.text("type", kind).field("source", &source.0).finish()
}

fn url_source(url: &str) -> Option<Json> {
    let mut out = Writer::default();
    if url.starts_with("https://") || url.starts_with("http://") {
        return Some(out.text("type", "url").text("url", url).finish());
    }
    let (media, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(
        out.text("type", "base64")
            .text("media_type", media)
            .text("data", data)
            .finish(),
    )
}
