//! JSON read one level at a time, keeping order, duplicates and the exact text of every value.
//!
//! Nothing here recurses: a value's text is found without looking into it, so nesting costs no
//! stack. Whole values are compared only up to the depth that `serde_json` allows.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::log::{Fields, Json};

/// The deepest nesting of a record that is read. A body wraps messages in a few levels more, and
/// JSON readers commonly stop at 128.
pub const MAX_DEPTH: usize = 100;

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value::<&RawValue>()?;
            fields.push((name, Json(value.get().to_owned())));
        }
        Ok(fields)
    }
}

struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = Vec<Json>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Json>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element::<&RawValue>()? {
            values.push(Json(value.get().to_owned()));
        }
        Ok(values)
    }
}

/// The fields of an object, in order, duplicates included; `None` when it is no object.
#[must_use]
pub fn object(json: &Json) -> Option<Fields> {
    object_in(&json.0)
}

/// The same of a text.
pub(super) fn object_in(text: &str) -> Option<Fields> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let fields = reader.deserialize_map(ObjectVisitor).ok()?;
    reader.end().ok()?;
    Some(fields)
}

/// The values of an array; `None` when it is no array.
#[must_use]
pub fn array(json: &Json) -> Option<Vec<Json>> {
    if !json.0.trim_start().starts_with('[') {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(&json.0);
    let values = reader.deserialize_seq(ArrayVisitor).ok()?;
    reader.end().ok()?;
    Some(values)
}

/// The text of a string; `None` when it is no string. Half of a surrogate pair, which a client
/// leaves where it cut a text, reads as U+FFFD.
#[must_use]
pub fn string(json: &Json) -> Option<String> {
    if !json.0.trim_start().starts_with('"') {
        return None;
    }
    let read = serde_json::from_str(&json.0);
    read.or_else(|_| serde_json::from_str(&mend_surrogates(&json.0)))
        .ok()
}

/// The same JSON text with U+FFFD in place of every half of a surrogate pair.
pub(super) fn mend_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        let (taken, after) = split_escape(escape);
        out.push_str(before);
        out.push('\\');
        out.push_str(taken);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What belongs to the escape that a backslash began, and what follows it.
fn split_escape(text: &str) -> (&str, &str) {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix('u')?.get(..4)?, 16).ok();
    let after = text.get(5..).unwrap_or_default();
    let low = after.strip_prefix('\\').and_then(unit);
    let len = match (unit(text), low) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 11,
        (Some(0xD800..=0xDFFF), _) => return ("ufffd", after),
        _ => text.chars().next().map_or(0, char::len_utf8),
    };
    text.split_at_checked(len).unwrap_or((text, ""))
}

/// The value of `true` or `false`.
#[must_use]
pub fn boolean(json: &Json) -> Option<bool> {
    serde_json::from_str(&json.0).ok()
}

/// The value of a non-negative whole number.
#[must_use]
pub fn integer(json: &Json) -> Option<u64> {
    serde_json::from_str(&json.0).ok()
}

/// The value of a number.
#[must_use]
pub fn number(json: &Json) -> Option<f64> {
    serde_json::from_str(&json.0).ok()
}

/// Whether it is `null`.
#[must_use]
pub fn is_null(json: &Json) -> bool {
    json.0.trim() == "null"
}

/// The field of this name; of several the last, which is the one JSON readers take.
#[must_use]
pub fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a Json> {
    fields
        .iter()
        .rev()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value)
}

/// Takes the field of this name out of the fields; of several the last.
pub fn take(fields: &mut Fields, name: &str) -> Option<Json> {
    let at = fields.iter().rposition(|(n, _)| n == name)?;
    Some(fields.remove(at).1)
}

/// Takes the field of this name if `read` can read it; otherwise it stays.
pub fn take_as<T>(fields: &mut Fields, name: &str, read: impl Fn(&Json) -> Option<T>) -> Option<T> {
    let value = read(field(fields, name)?)?;
    take(fields, name);
    Some(value)
}

/// The text of the string field of this name.
#[must_use]
pub fn text_field(fields: &Fields, name: &str) -> Option<String> {
    string(field(fields, name)?)
}

/// A string as JSON.
#[must_use]
pub fn quoted(text: &str) -> Json {
    // Writing a text to memory does not fail.
    Json(serde_json::to_string(text).unwrap_or_default())
}

/// An object of these fields, in this order.
#[must_use]
pub fn write_object(fields: &Fields) -> Json {
    let mut out = Writer::default();
    for (name, value) in fields {
        out.field(name, &value.0);
    }
    out.finish()
}

/// An array of these values.
#[must_use]
pub fn write_array<'a>(values: impl IntoIterator<Item = &'a Json>) -> Json {
    let mut out = String::from("[");
    for value in values {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&value.0);
    }
    out.push(']');
    Json(out)
}

/// Writes an object field by field.
#[derive(Debug, Default)]
pub struct Writer {
    out: String,
    names: Vec<String>,
}

impl Writer {
    /// Adds a field whose value is given as JSON text.
    pub fn field(&mut self, name: &str, value: &str) -> &mut Self {
        self.out.push(if self.out.is_empty() { '{' } else { ',' });
        self.names.push(name.to_owned());
        self.out.push_str(&quoted(name).0);
        self.out.push(':');
        self.out.push_str(value);
        self
    }

    /// Adds a string field.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.field(name, &quoted(value).0)
    }

    /// Whether it has a field of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|written| written == name)
    }

    /// Adds fields as they are, but none whose name was written before.
    pub fn fields(&mut self, fields: &Fields) -> &mut Self {
        let written = self.names.clone();
        for (name, value) in fields.iter().filter(|(name, _)| !written.contains(name)) {
            self.field(name, &value.0);
        }
        self
    }

    /// The object.
    #[must_use]
    pub fn finish(&self) -> Json {
        if self.out.is_empty() {
            return Json("{}".to_owned());
        }
        Json(format!("{}}}", self.out))
    }
}

/// Whether two texts are the same JSON value. Nesting too deep to read is never equal, nor is what
/// has two fields of one name in an object: readers differ in which of them they take.
#[must_use]
pub fn equal(a: &Json, b: &Json) -> bool {
    if a == b {
        return true;
    }
    matches!((Distinct::read(&a.0), Distinct::read(&b.0)), (Some(a), Some(b)) if a == b)
}

/// A JSON value in which no object has two fields of one name; others cannot be read. Words without
/// escapes stay where they are.
#[derive(PartialEq)]
enum Distinct<'a> {
    Scalar(Value),
    Text(Cow<'a, str>),
    Array(Vec<Self>),
    /// Ascending by name.
    Object(Vec<(Name<'a>, Self)>),
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Distinct<'a> {
    fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

struct DistinctVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Distinct<'a> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(DistinctVisitor)
    }
}

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Distinct<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without repeated names")
    }

    fn visit_unit<E>(self) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Scalar(value.into()))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Text(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Distinct<'de>, E> {
        Ok(Distinct::Text(value.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Distinct<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Distinct::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct<'de>, A::Error> {
        let mut fields: Vec<(Name<'_>, Distinct<'_>)> = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        fields.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let again = |pair: &[(Name<'_>, Distinct<'_>)]| matches!(pair, [(a, _), (b, _)] if a == b);
        if fields.windows(2).any(again) {
            return Err(serde::de::Error::custom("a repeated name"));
        }
        Ok(Distinct::Object(fields))
    }
}

/// What follows a string that was begun before these bytes.
fn behind_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let (_, found) = rest.split_at(at);
        match found {
            // What a backslash stands before does not end it.
            [b'\\', _, behind @ ..] => rest = behind,
            [_, behind @ ..] => return behind,
            [] => break,
        }
    }
    &[]
}

/// How deeply arrays and objects are nested in a JSON text.
#[must_use]
pub fn depth(text: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'"' => rest = behind_string(rest),
            b'{' | b'[' => {
                now = now.saturating_add(1);
                most = most.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_order_duplicates_and_the_text_of_its_values() {
        let json = Json(r#"{"b": 1.0, "a": "\u0041", "b" : [1,  2]}"#.into());
        let fields = object(&json).unwrap();
        let names: Vec<_> = fields
            .iter()
            .map(|(n, v)| (n.as_str(), v.0.as_str()))
            .collect();
        assert_eq!(
            names,
            [("b", "1.0"), ("a", r#""\u0041""#), ("b", "[1,  2]")]
        );
        assert_eq!(field(&fields, "b").unwrap().0, "[1,  2]");
        assert_eq!(text_field(&fields, "a").unwrap(), "A");
    }

    #[test]
    fn values_are_compared_without_their_layout_and_repeated_names_are_never_equal() {
        let same = |a: &str, b: &str| equal(&Json(a.into()), &Json(b.into()));
        let a = r#"{"a":[1,-2,0.5,null,true,"\u0041"],"b":{}}"#;
        assert!(same(
            a,
            r#"{ "b": {}, "a": [1, -2, 5e-1, null, true, "A"] }"#
        ));
        for b in [
            r#"{"a":[1,-2,0.5,null,true,"A"]}"#,
            "[]",
            "{",
            r#"{"a":1,"b":{}}"#,
        ] {
            assert!(!same(a, b), "{b}");
        }
        assert!(!same(r#"{"x":[{"a":1,"a":2}]}"#, r#"{"x":[{"a":2}]}"#));
        assert!(same(r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#));
    }

    #[test]
    fn brackets_within_words_are_not_nesting() {
        for (text, expected) in [
            (r#"{"a":"[[[","b":["\"]}"#, 2),
            (r#"["\\",["\"[",[]]]"#, 3),
            (r#"["[\"#, 1),
            (r#"["[[\""#, 1),
            ("[\"", 1),
            ("", 0),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(depth(&deep), 200_000);
        let outer = array(&Json(deep.clone())).unwrap();
        assert_eq!(outer.len(), 1);
        assert!(object(&Json(deep.clone())).is_none());
        assert!(!equal(&Json(deep.clone()), &Json(format!(" {deep}"))));
    }

    #[test]
    fn half_of_a_surrogate_pair_reads_as_a_replacement_character() {
        let read = |text: &str| string(&Json(format!("\"{text}\""))).unwrap();
        assert_eq!(read(r"a\ud83db"), "a\u{fffd}b");
        assert_eq!(
            read(r"\ude00\ud83d\ude00\ud83d\n\\ud83d"),
            "\u{fffd}\u{1f600}\u{fffd}\n\\ud83d"
        );
        assert_eq!(read(r"\ud83d\ud83d\ude00"), "\u{fffd}\u{1f600}");
        for text in [
            r#""\ud83"#,
            r#""\u12"#,
            r#""\"#,
            r#""\ud83d\x""#,
            "\"\\u\u{e9}\u{e9}\"",
        ] {
            assert_eq!(string(&Json(text.into())), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_none() {
        for text in ["", "null", "3", "\"x\"", "[]", "{", "{}{}", "{\"a\":}"] {
            assert!(object(&Json(text.into())).is_none(), "{text}");
        }
    }

    #[test]
    fn a_written_object_reads_back() {
        let json = Writer::default()
            .text("a\"b", "\n")
            .field("c", "[1]")
            .finish();
        assert_eq!(json.0, r#"{"a\"b":"\n","c":[1]}"#);
        assert_eq!(write_object(&object(&json).unwrap()), json);
        assert_eq!(Writer::default().finish().0, "{}");
    }
}
