//! Media blocks of one provider in the terms of another.

use super::json::{self, Writer};
use crate::log::{Fields, Json};

/// A mapped block, where it is a text: of a role that takes no media, a document that is text still is one.
pub(crate) fn text_only(mapped: Option<Json>) -> Option<Json> {
    mapped.filter(|mapped| {
        let fields = json::object(mapped).unwrap_or_default();
        json::text_field(&fields, "type").as_deref() == Some("text")
    })
}

/// A media block as OpenAI chat content; `None` where it has no counterpart there.
pub(crate) fn to_openai(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let kind = json::text_field(&fields, "type")?;
    match kind.as_str() {
        "file" if json::field(&fields, "mediaType").is_some() => ui_file_to_openai(&fields),
        "image_url" | "input_audio" | "file" | "video_url" => Some(block.clone()),
        "image" => {
            let mut url = Writer::default();
            Some(wrapped(
                "image_url",
                &url.text("url", &image_url(&source(&fields)?)?).finish(),
            ))
        }
        "document" => document_to_openai(&fields),
        "input_image" => {
            let mut url = Writer::default();
            url.text("url", &json::text_field(&fields, "image_url")?);
            copy(&fields, &["detail"], &mut url);
            Some(wrapped("image_url", &url.finish()))
        }
        "input_file" => {
            let mut file = Writer::default();
            copy(&fields, &["filename", "file_data"], &mut file);
            json::field(&fields, "file_data")?;
            Some(wrapped("file", &file.finish()))
        }
        "document_url" => {
            let url = json::text_field(&fields, "document_url")?;
            url.starts_with("data:").then(|| file_of(&fields, &url))
        }
        _ => None,
    }
}

/// Copies fields that are there.
fn copy(fields: &Fields, names: &[&str], out: &mut Writer) {
    for name in names {
        if let Some(value) = json::field(fields, name) {
            out.field(name, &value.0);
        }
    }
}

/// A file of chat content, of a document's data.
fn file_of(document: &Fields, data: &str) -> Json {
    let names = ["document_name", "filename", "title"];
    let name = names
        .iter()
        .find_map(|name| json::text_field(document, name));
    let mut file = Writer::default();
    file.text("filename", name.as_deref().unwrap_or("document"));
    wrapped("file", &file.text("file_data", data).finish())
}

/// The address of a document that lies elsewhere, in the words of any provider.
fn document_address(fields: &Fields) -> Option<String> {
    let url = match json::text_field(fields, "type")?.as_str() {
        "document_url" => json::text_field(fields, "document_url"),
        "input_file" => json::text_field(fields, "file_url"),
        "document" => json::text_field(&source(fields)?, "url"),
        _ => None,
    };
    url.filter(|url| url.starts_with("http://") || url.starts_with("https://"))
}

/// A media block as content of OpenAI Responses; `None` where it has no counterpart there.
pub(crate) fn to_responses(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let kind = json::text_field(&fields, "type")?;
    let mut out = Writer::default();
    if ["input_image", "input_file"].contains(&kind.as_str()) {
        return Some(block.clone());
    }
    if let Some(url) = document_address(&fields) {
        return Some(
            out.text("type", "input_file")
                .text("file_url", &url)
                .finish(),
        );
    }
    let chat = to_openai(block)?;
    let fields = json::object(&chat)?;
    let kind = json::text_field(&fields, "type")?;
    let inner = || json::object(json::field(&fields, &kind)?);
    match kind.as_str() {
        "text" => Some(chat.clone()),
        "image_url" => {
            let (image, auto) = (inner()?, json::quoted("auto"));
            let detail = json::field(&image, "detail").unwrap_or(&auto);
            out.text("type", "input_image")
                .text("image_url", &json::text_field(&image, "url")?)
                .field("detail", &detail.0);
            Some(out.finish())
        }
        "file" => {
            out.text("type", "input_file");
            copy(&inner()?, &["filename", "file_data", "file_id"], &mut out);
            Some(out.finish())
        }
        _ => None,
    }
}

/// A media block as content of Mistral; `None` where it has no counterpart there.
pub(crate) fn to_mistral(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let document = |url: &str| {
        let mut out = Writer::default();
        out.text("type", "document_url")
            .text("document_url", url)
            .finish()
    };
    if json::text_field(&fields, "type")? == "document_url" {
        return Some(block.clone());
    }
    if let Some(url) = document_address(&fields) {
        return Some(document(&url));
    }
    let chat = to_openai(block)?;
    let fields = json::object(&chat)?;
    let kind = json::text_field(&fields, "type")?;
    let inner = || json::object(json::field(&fields, &kind)?);
    match kind.as_str() {
        "text" | "image_url" => Some(chat.clone()),
        "file" => {
            let data = json::text_field(&inner()?, "file_data")?;
            data.starts_with("data:application/pdf")
                .then(|| document(&data))
        }
        "input_audio" => {
            let data = match inner() {
                Some(audio) => json::text_field(&audio, "data")?,
                None => json::text_field(&fields, "input_audio")?,
            };
            let mut out = Writer::default();
            Some(
                out.text("type", "input_audio")
                    .text("input_audio", &data)
                    .finish(),
            )
        }
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
    Some(file_of(fields, &data_url(&source)?))
}

/// The file of a UI message: an address and the type of what is there.
fn ui_file_to_openai(fields: &Fields) -> Option<Json> {
    let media = json::text_field(fields, "mediaType")?;
    let url = json::text_field(fields, "url")?;
    let mut inner = Writer::default();
    if media.starts_with("image/") {
        return Some(wrapped("image_url", &inner.text("url", &url).finish()));
    }
    let name = json::text_field(fields, "filename").unwrap_or_else(|| "document".to_owned());
    let data = url.starts_with("data:").then_some(url)?;
    inner.text("filename", &name).text("file_data", &data);
    Some(wrapped("file", &inner.finish()))
}

/// A media block as Anthropic content; `None` where it has no counterpart there.
pub(crate) fn to_anthropic(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let kind = json::text_field(&fields, "type")?;
    let inner = || json::object(json::field(&fields, &kind)?);
    match kind.as_str() {
        "image" | "document" => Some(block.clone()),
        "file" if json::field(&fields, "mediaType").is_some() => {
            to_anthropic(&ui_file_to_openai(&fields)?)
        }
        "image_url" => {
            let url = json::text_field(&inner()?, "url")?;
            Some(with_source("image", &url_source(&url)?))
        }
        "file" => {
            let url = json::text_field(&inner()?, "file_data")?;
            let source = url_source(&url).filter(|_| url.starts_with("data:application/pdf"))?;
            Some(with_source("document", &source))
        }
        "input_image" | "input_file" | "document_url" => match document_address(&fields) {
            Some(url) => Some(with_source("document", &url_source(&url)?)),
            None => to_anthropic(&to_openai(block)?),
        },
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
