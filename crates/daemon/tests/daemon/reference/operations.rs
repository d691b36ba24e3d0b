//! What each route takes and answers, beside the schemas.

use serde_json::{Map, Value, json};
use wolli_protocol::answer::EntriesPage;
use wolli_protocol::command::Command;
use wolli_protocol::dialog::{DialogAnswer, DialogReceipt};
use wolli_protocol::event::{ControlEvent, SessionEvent};
use wolli_protocol::snapshot::SnapshotFrame;
use wolli_protocol::state::{AgentState, Health, Hello};

use super::components::Components;

/// Values of `view`.
pub(super) const VIEWS: &[&str] = &["delta", "full", "snapshot"];

/// Words of `include`, `all` aside.
pub(super) const NOTICES: &[&str] = &["compaction", "retry", "waiting", "login_ui", "usage", "lifecycle"];

/// Entries of a page at most.
pub(super) const LARGEST_PAGE: u32 = 10_000;

/// Describes a route; `None` for one that is not known here.
pub(super) fn describe(method: &str, path: &str, schemas: &mut Components) -> Option<Value> {
    let words = [NOTICES, &["all"]].concat();
    let operation = match (method, path) {
        ("GET", "/health") => json!({
            "operationId": "health",
            "summary": "Is it there",
            "description": "Open to everybody, and so without secrets. A caller that sends a nonce gets the proof that the daemon knows the token; \
                a bearer also learns which program answers.",
            "parameters": [{
                "name": "nonce", "in": "query", "schema": {"type": "string"},
                "description": "Text of the caller's own: letters, digits and `._~-`, at most 128 of them. Anything else gets no proof.",
            }],
            "responses": responses(&json_body("The daemon runs.", &schemas.of::<Health>()), &[]),
        }),
        ("GET", "/openapi.json") => json!({
            "operationId": "reference",
            "summary": "This document",
            "responses": responses(&json_body("The document of the version that answers.", &json!({"type": "object"})), &[]),
        }),
        ("GET", "/sessions") => json!({
            "operationId": "listSessions",
            "summary": "The agent and its sessions",
            "responses": responses(&json_body("Newest session first.", &schemas.of::<AgentState>()), &["InternalError", "Unavailable"]),
        }),
        ("GET", "/events") => json!({
            "operationId": "agentEvents",
            "summary": "Sessions come, go and are renamed",
            "description": "A stream of server-sent events. Its frames have no number and are not replayed; a reader that comes back takes the state \
                from `hello`.",
            "responses": responses(
                &stream("`hello`, then what happens.", &schemas.of::<AgentState>(), &schemas.of::<ControlEvent>()),
                &["InternalError", "Unavailable"],
            ),
        }),
        ("GET", "/sessions/{id}/events") => {
            let message = json!({"anyOf": [schemas.of::<SessionEvent>(), schemas.of::<SnapshotFrame>()]});
            json!({
                "operationId": "sessionEvents",
                "summary": "What happens in a session",
                "description": "A stream of server-sent events, and the session is in memory while it is read. A reader that comes back sends the number of \
                    the last frame that it saw.",
                "parameters": [
                    session_id(),
                    {
                        "name": "view", "in": "query", "schema": {"type": "string", "enum": VIEWS},
                        "description": "`delta` sends each byte of a reply once; `full` sends the whole message with every update, as wolli 0.0.2 did; \
                            `snapshot` sends what the newest run has produced so far, and patches of it, beside the notices and dialogs. The default is `delta`, and `view` in `[events]` of config.toml changes it.",
                    },
                    {
                        "name": "include", "in": "query", "style": "form", "explode": false,
                        "schema": {"type": "array", "items": {"type": "string", "enum": words}},
                        "description": "Notices to send beside the events: frames without a number that are not replayed. The default is none, and \
                            `include` in `[events]` of config.toml changes it.",
                    },
                    {
                        "name": "after", "in": "query", "schema": {"type": "string"},
                        "description": "The last entry that the reader has. A `hello` that does not resume brings those after it.",
                    },
                    {
                        "name": "Last-Event-ID", "in": "header", "schema": {"type": "string"},
                        "description": "The number of the last frame that the reader saw: digits. What cannot be resumed is a gap, and told in `hello`.",
                    },
                ],
                "responses": responses(
                    &stream("`hello`, then the frames that were missed, then what happens.", &schemas.of::<Hello>(), &message),
                    &["NotFound", "InternalError", "Unavailable"],
                ),
            })
        }
        ("GET", "/sessions/{id}/entries") => json!({
            "operationId": "sessionEntries",
            "summary": "What happened in a session, in pages",
            "description": "The active branch from its beginning. Does not load the session into memory.",
            "parameters": [
                session_id(),
                {"name": "after", "in": "query", "schema": {"type": "string"}, "description": "The entry before the page: `next` of the page before."},
                {
                    "name": "limit", "in": "query",
                    "schema": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": 200},
                    "description": "Entries of the page at most; a page also ends after 4 MiB.",
                },
            ],
            "responses": responses(
                &json_body("A page.", &schemas.of::<EntriesPage>()),
                &["NotFound", "InternalError", "Unavailable"],
            ),
        }),
        ("POST", "/sessions/{id}/control") => json!({
            "operationId": "command",
            "summary": "A command",
            "description": "The status says only that the command was read: whether it succeeded stands in `success`. What is unknown or wrong in a \
                command is a failure that names it and changes nothing. Optional fields may be `null`, unknown fields are ignored. The answer to a \
                command that takes long begins at once and with white space.",
            "parameters": [session_id()],
            "requestBody": body(&schemas.of::<Command>()),
            "responses": responses(&json_body("The command's answer.", &schemas.command_answer()), SENT),
        }),
        ("POST", "/sessions/{id}/ui-response") => dialog_answer("answerDialog", "The answer to a question", schemas),
        ("POST", "/sessions/{id}/login-response") => dialog_answer("answerLoginDialog", "The answer to a question of a login", schemas),
        _ => return None,
    };
    Some(operation)
}

/// Errors of the routes that read a body.
const SENT: &[&str] = &["TooSlow", "TooLarge", "InternalError", "Unavailable"];

fn dialog_answer(id: &str, summary: &str, schemas: &mut Components) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "description": "The first answer counts. `applied` says whether this was it. Never loads the session.",
        "parameters": [session_id()],
        "requestBody": body(&schemas.of::<DialogAnswer>()),
        "responses": responses(&json_body("The answer was read, or `success` is false.", &schemas.of::<DialogReceipt>()), SENT),
    })
}

fn session_id() -> Value {
    json!({"$ref": "#/components/parameters/SessionId"})
}

fn body(schema: &Value) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": schema}}})
}

fn json_body(description: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {"application/json": {"schema": schema}}})
}

/// A stream: the text as a whole has no schema, its frames have one by their `event`.
fn stream(description: &str, hello: &Value, message: &Value) -> Value {
    json!({
        "description": description,
        "content": {"text/event-stream": {
            "schema": {"type": "string", "description": "Frames as `x-frames` says, and the comment `: ping` every 15 seconds."},
            "x-frames": {"hello": hello, "message": message},
        }},
    })
}

/// The good answer, the errors of every route, and `more` of them.
fn responses(good: &Value, more: &[&str]) -> Value {
    let mut all = Map::from_iter([("200".to_owned(), good.clone())]);
    for name in ["Forbidden", "Misdirected"].iter().chain(more) {
        all.insert(response(name).0.to_owned(), json!({"$ref": format!("#/components/responses/{name}")}));
    }
    all.sort_keys();
    all.into()
}

/// What every route that wants the token may answer.
pub(super) fn guard(operation: &mut Value) {
    for name in ["BadRequest", "Unauthorized"] {
        operation["responses"][response(name).0] = json!({"$ref": format!("#/components/responses/{name}")});
    }
    if let Some(responses) = operation["responses"].as_object_mut() {
        responses.sort_keys();
    }
}

/// Every error that routes share: its status and what it is.
pub(super) fn response(name: &str) -> (&'static str, Value) {
    let text = |description: &str, body: &str| json!({"description": description, "content": {"text/plain": {"schema": {"type": "string"}, "example": body}}});
    let error = |description: &str| json!({"description": description, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}});
    match name {
        "BadRequest" => (
            "400",
            json!({
                "description": "`Authorization` is not `Bearer <token>` (text), or a parameter or the body is not what it must be (JSON).",
                "content": {
                    "text/plain": {"schema": {"type": "string"}, "example": "Bad Request"},
                    "application/json": {"schema": {"$ref": "#/components/schemas/Error"}},
                },
            }),
        ),
        "Unauthorized" => ("401", text("No token, or another one.", "Unauthorized")),
        "Forbidden" => ("403", text("A page of another origin asks.", "pages of other origins may not talk to this daemon")),
        "NotFound" => ("404", error("There is no such session or entry.")),
        "TooSlow" => ("408", error("The body did not arrive in time.")),
        "TooLarge" => ("413", error("The body is larger than `body` in `[limits]` of config.toml.")),
        "Misdirected" => ("421", text("`Host` is not a name of this daemon.", "\"example.org\" is not a name of this daemon.")),
        "InternalError" => (
            "500",
            json!({
                "description": "Something that the daemon needs cannot be read or written (JSON), or the daemon has a fault (text).",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Error"}},
                    "text/plain": {"schema": {"type": "string"}, "example": "Internal Server Error"},
                },
            }),
        ),
        "Unavailable" => ("503", error("The agent is still being loaded, or the daemon is shutting down or has too many connections.")),
        _ => panic!("no error is called {name}"),
    }
}

/// Errors that stand in the document by their name.
pub(super) const RESPONSES: &[&str] =
    &["BadRequest", "Unauthorized", "Forbidden", "NotFound", "TooSlow", "TooLarge", "Misdirected", "InternalError", "Unavailable"];
