//! The OpenAPI document: endpoints in the words of OpenAPI 3.1.

use crate::call::Call;
use crate::caller::Need;
use crate::endpoint::{Endpoint, Field, Gives, Kind, Takes, Verb};
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use serde_json::{Map, Value, json};

/// `GET /api/x/openapi.json`, of all endpoints there are.
pub(crate) fn document<N: Node>(call: &Call<'_, N>, endpoints: &[Endpoint]) -> Answer {
    let about = call.node.about();
    Ok(Response::ok(&describe(endpoints, &about.product_version, &about.prefix)))
}

/// The document.
pub(crate) fn describe(endpoints: &[Endpoint], version: &str, prefix: &str) -> Value {
    let paths: Map<String, Value> = base::brief::collect(
        endpoints.iter().map(|endpoint| (format!("/{}", endpoint.path), path(endpoint))),
    );
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Leveret", "version": version, "summary": "The management HTTP API" },
        "servers": [{ "url": format!("{prefix}/api") }],
        "security": [{ "basic": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "basic": { "type": "http", "scheme": "basic" } },
            "schemas": { "Error": schema_of_error(), "Page": schema_of_page() },
        },
    })
}

fn schema_of_error() -> Value {
    json!({ "type": "object", "properties": { "error": { "type": "string" }, "reason": {} } })
}

fn schema_of_page() -> Value {
    let number = json!({ "type": "integer", "minimum": 0 });
    let names = ["total_count", "item_count", "filtered_count", "page", "page_size", "page_count"];
    let mut properties: Map<String, Value> =
        base::brief::collect(names.iter().map(|name| ((*name).to_owned(), number.clone())));
    properties.insert("items".to_owned(), json!({ "type": "array", "items": { "type": "object" } }));
    json!({ "type": "object", "required": ["items", "page", "page_count"], "properties": properties })
}

fn path(endpoint: &Endpoint) -> Value {
    let own = |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let parameters: Vec<Value> = endpoint.names().map(own).collect();
    let mut path = Map::new();
    for verb in endpoint.verbs {
        path.insert(verb.method.name().to_lowercase(), operation(endpoint, verb));
    }
    if !parameters.is_empty() {
        path.insert("parameters".to_owned(), parameters.into());
    }
    path.into()
}

fn operation(endpoint: &Endpoint, verb: &Verb) -> Value {
    let section = endpoint.path.split('/').next().unwrap_or_default();
    let mut operation = json!({
        "operationId": format!("{}{:?}", verb.method.name().to_lowercase(), endpoint.name),
        "tags": [section],
        "summary": verb.about,
        "description": who(verb.need),
        "responses": responses(endpoint, verb),
    });
    if verb.need == Need::Nobody {
        operation["security"] = json!([]);
    }
    if !verb.asks.is_empty() {
        let parameter = |field: &Field| json!({ "name": field.name, "in": "query", "required": field.is_needed, "schema": kind(field.kind) });
        operation["parameters"] = verb.asks.iter().map(parameter).collect();
    }
    let (content, fields) = match verb.takes {
        Takes::Nothing => return operation,
        Takes::Object(fields) => ("application/json", fields),
        Takes::Form(fields) => ("application/x-www-form-urlencoded", fields),
    };
    let is_needed = fields.iter().any(|field| field.is_needed);
    operation["requestBody"] =
        json!({ "required": is_needed, "content": { content: { "schema": object(fields) } } });
    operation
}

/// The users that a need lets in.
fn who(need: Need) -> &'static str {
    match need {
        Need::Nobody => "Needs no user.",
        Need::User => "Needs a user with any of the tags of the management API.",
        Need::Vhost => "Needs a user with permissions in the virtual host.",
        Need::Monitor => "Needs the tag monitoring or administrator.",
        Need::Policymaker => "Needs the tag policymaker or administrator.",
        Need::PolicymakerIn => {
            "Needs the tag policymaker and permissions in the virtual host, or administrator."
        }
        Need::Administrator => "Needs the tag administrator.",
    }
}

fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        base::brief::collect(fields.iter().map(|field| (field.name.to_owned(), kind(field.kind))));
    let needed: Vec<&str> = fields.iter().filter(|field| field.is_needed).map(|field| field.name).collect();
    let mut object = json!({ "type": "object", "properties": properties });
    if !needed.is_empty() {
        object["required"] = needed.into();
    }
    object
}

fn kind(kind: Kind) -> Value {
    let list = |of: &str| json!({ "type": "array", "items": { "type": of } });
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Integer => json!({ "type": "integer" }),
        Kind::Object => json!({ "type": "object" }),
        Kind::Texts => list("string"),
        Kind::Objects => list("object"),
        Kind::Integers => list("integer"),
        Kind::Words => json!({ "anyOf": [{ "type": "string" }, list("string")] }),
        Kind::Any => json!({}),
        Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
    }
}

fn responses(endpoint: &Endpoint, verb: &Verb) -> Value {
    let of = |content: &str, schema: Value| json!({ "description": "", "content": { content: { "schema": schema } } });
    let json_of = |schema: Value| of("application/json", schema);
    let rows = json!({ "type": "array", "items": {} });
    let mut responses = Map::new();
    let mut put = |status: u16, mut response: Value, about: &str| {
        response["description"] = about.into();
        responses.insert(status.to_string(), response);
    };
    let done = "it is so";
    match verb.gives {
        Gives::Rows => {
            let page = json!({ "$ref": "#/components/schemas/Page" });
            put(200, json_of(json!({ "anyOf": [rows, page] })), "a list, or a page of it");
        }
        Gives::Array => put(200, json_of(rows), "a list"),
        Gives::Object => put(200, json_of(json!({ "type": "object" })), "an object"),
        Gives::Text => put(200, json_of(json!({ "type": "string" })), "a text"),
        Gives::Plain => put(200, of("text/plain", json!({ "type": "string" })), "a text"),
        Gives::Events => {
            put(200, of("text/event-stream", json!({ "type": "string" })), "server-sent events");
            put(503, json_of(json!({ "$ref": "#/components/schemas/Error" })), "too many listen already");
        }
        Gives::Health => {
            put(200, json_of(json!({ "type": "object" })), "it is well");
            put(503, json_of(json!({ "type": "object" })), "something is wrong, as the body says");
        }
        Gives::Imported => {
            put(204, json!({}), done);
            put(200, json_of(json!({ "type": "object" })), "what came of it, or would come of it");
            put(303, json!({}), "it is so, and the form says where to go");
            let error = json!({ "$ref": "#/components/schemas/Error" });
            put(415, json_of(error), "the body is neither JSON nor a form with a file");
        }
        Gives::Done(statuses) => statuses.iter().for_each(|status| put(*status, json!({}), done)),
    }
    let error = || json_of(json!({ "$ref": "#/components/schemas/Error" }));
    put(400, error(), "what was sent makes no sense");
    if verb.need != Need::Nobody || verb.method == Method::Post {
        // A request without a login gets no body.
        put(401, json!({}), "nobody is logged in, or not who may");
        put(429, error(), "too many passwords were wrong: this one was not looked at");
    }
    let asks_for_object = verb.asks.iter().any(|field| field.name == "vhost");
    if endpoint.names().next().is_some() || verb.takes != Takes::Nothing || asks_for_object {
        put(404, error(), "there is no such thing");
    }
    if verb.asks.iter().any(|field| field.name == "only") {
        put(409, error(), "it is there already, and was to be new");
    }
    if verb.method != Method::Get && endpoint.names().any(|name| name == "component") {
        put(409, error(), "it is a macro, and something uses it");
    }
    if verb.takes != Takes::Nothing {
        put(413, error(), "the body is too large");
    }
    if verb.method == Method::Delete {
        put(412, error(), "it is kept from being deleted");
    }
    put(403, error(), "it came from the page of another site, or by a name that is not this machine's");
    responses.into()
}
