//! The settings of a request: as they are in a provider's own format, and what can be said of those of
//! another.

use super::dialect::Dialect;
use super::json::{self, Writer};
use super::render;
use super::wire::Repairs;
use crate::log::{Fields, Json};

/// A tool that the client runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tool {
    pub(crate) name: Json,
    pub(crate) description: Option<Json>,
    /// The JSON schema of its arguments.
    pub(crate) schema: Option<Json>,
}

impl Tool {
    /// Writes its name and its description.
    pub(crate) fn describe(&self, out: &mut Writer) {
        out.field("name", &self.name.0);
        if let Some(description) = &self.description {
            out.field("description", &description.0);
        }
    }

    /// The schema, or that of no arguments.
    pub(crate) fn schema_or_none(&self) -> &str {
        let none = r#"{"type":"object","properties":{}}"#;
        self.schema.as_ref().map_or(none, |schema| &schema.0)
    }
}

/// Writes a request's settings. Those of the dialect's own format stay as they are.
pub(crate) fn write(
    body: &mut Writer,
    dialect: &dyn Dialect,
    request: &render::Request<'_>,
    repairs: &mut Repairs,
) {
    let settings = request.settings;
    let own = dialect.knows(request.format);
    if let Some(field) = dialect.model_field() {
        let chosen = request.model.map(json::quoted);
        let named = || {
            ["model", "modelId"]
                .iter()
                .find_map(|n| json::field(settings, n))
        };
        if let Some(model) = chosen.or_else(|| named().cloned()) {
            body.field(field, &model.0);
        }
    }
    if own {
        for (name, value) in settings {
            let elsewhere = Some(name.as_str()) == dialect.model_field()
                || dialect.message_fields().contains(&name.as_str());
            if !elsewhere {
                body.field(name, &value.0);
            }
        }
        if !request.as_is {
            dialect.complete(body, settings);
        }
        return;
    }
    let (tools, whole) = tools(settings);
    dialect.write_mapped(body, limit(settings), &tools);
    if !whole {
        repairs.add_to_body("map", "left out tools that another provider runs");
    }
}

/// The most tokens of an answer, in whatever words.
fn limit(settings: &Fields) -> Option<u64> {
    let direct = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let within = [
        ("inferenceConfig", "maxTokens"),
        ("generationConfig", "maxOutputTokens"),
        ("generation_config", "max_output_tokens"),
    ];
    let direct = direct.iter().filter_map(|name| json::field(settings, name));
    let mut found = direct.filter_map(json::integer);
    found.next().or_else(|| {
        let inner = |(outer, name): &(&str, &str)| {
            let fields = json::object(json::field(settings, outer)?)?;
            json::integer(json::field(&fields, name)?)
        };
        within.iter().find_map(inner)
    })
}

/// The tools that the client runs, and whether these are all.
fn tools(settings: &Fields) -> (Vec<Tool>, bool) {
    let config = ["toolConfig", "tool_config"].iter().find_map(|name| {
        let fields = json::object(json::field(settings, name)?)?;
        json::field(&fields, "tools").cloned()
    });
    let given = json::field(settings, "tools").cloned().or(config);
    let given = given.as_ref().and_then(json::array).unwrap_or_default();
    let (mut tools, mut whole) = (Vec::new(), true);
    for one in given {
        let found = tools_of(&one);
        whole &= !found.is_empty();
        tools.extend(found);
    }
    (tools, whole)
}

/// The tools that one member of a list declares, in the terms of any provider; none where it is one that
/// the provider runs.
fn tools_of(one: &Json) -> Vec<Tool> {
    let Some(fields) = json::object(one) else {
        return Vec::new();
    };
    let declared = ["functionDeclarations", "function_declarations"];
    if let Some(list) = declared.iter().find_map(|name| json::field(&fields, name)) {
        let list = json::array(list).unwrap_or_default();
        let each = list.iter().filter_map(json::object);
        let tools = each.filter_map(|fields| tool(&fields));
        return tools.map(with_types_of_json).collect();
    }
    let inner = ["function", "toolSpec", "tool_spec"];
    let inner = inner.iter().find_map(|name| json::field(&fields, name));
    let own = match inner.and_then(json::object) {
        Some(inner) => tool(&inner),
        // One that the provider runs has a name and no schema.
        None => tool(&fields).filter(|tool| tool.schema.is_some() || is_function(&fields)),
    };
    own.into_iter().collect()
}

/// Gemini names the types of a schema in capitals, others as JSON Schema does.
fn with_types_of_json(tool: Tool) -> Tool {
    let schema = tool.schema.as_ref().map(lowered);
    Tool { schema, ..tool }
}

/// A schema with the types of it, and of those within it, in small letters; what only looks like one
/// (a property that is called `type`, a value) stays.
fn lowered(schema: &Json) -> Json {
    let Some(mut fields) = json::object(schema) else {
        return schema.clone();
    };
    for (name, value) in &mut fields {
        match name.as_str() {
            "type" => {
                let name = json::string(value).map(|name| name.to_ascii_lowercase());
                if let Some(name) = name.filter(|name| TYPES.contains(&name.as_str())) {
                    *value = json::quoted(&name);
                }
            }
            "items" | "additionalProperties" => *value = lowered(value),
            "anyOf" | "any_of" | "prefixItems" => {
                if let Some(schemas) = json::array(value) {
                    let schemas: Vec<Json> = schemas.iter().map(lowered).collect();
                    *value = json::write_array(&schemas);
                }
            }
            "properties" | "defs" | "$defs" => {
                if let Some(mut named) = json::object(value) {
                    named
                        .iter_mut()
                        .for_each(|(_, schema)| *schema = lowered(schema));
                    *value = json::write_object(&named);
                }
            }
            _ => {}
        }
    }
    json::write_object(&fields)
}

/// The types of JSON Schema.
const TYPES: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];

fn is_function(fields: &Fields) -> bool {
    json::text_field(fields, "type").as_deref() == Some("function")
}

fn tool(fields: &Fields) -> Option<Tool> {
    let schema = [
        "parameters",
        "input_schema",
        "inputSchema",
        "parametersJsonSchema",
        "parameters_json_schema",
    ];
    let schema = schema.iter().find_map(|name| json::field(fields, name));
    // Bedrock's stands within one more object.
    let within = schema
        .and_then(json::object)
        .filter(|fields| fields.len() == 1);
    let within = within.and_then(|fields| json::field(&fields, "json").cloned());
    Some(Tool {
        name: json::field(fields, "name")?.clone(),
        description: json::field(fields, "description").cloned(),
        schema: within.or_else(|| schema.cloned()),
    })
}
