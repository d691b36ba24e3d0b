//! What to leave out after a provider refused a part of a request.
//!
//! Some faults show only when the provider looks: a signature from another deployment, an image that is too large, a
//! schema it cannot compile. The part is dropped from what is sent, never from the history, and the request goes out once
//! more. Pure decisions; `stream` does the sending.

use serde_json::Value;

use crate::refused::{Fingerprint, Known};
use crate::request::ToolSpec;

/// How many refused parts one request may lose, so that a server that refuses everything is not asked for ever.
pub(crate) const MAX_REPAIRS: u32 = 3;

/// Fewest tokens of an answer that are worth asking for.
const LEAST_MAX_TOKENS: u64 = 1024;

/// Where an image stands in a request of kind `anthropic-messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagePlace {
    pub(crate) message: usize,
    pub(crate) block: usize,
    /// Inside the result of a tool.
    pub(crate) inner: Option<usize>,
}

/// Which tool of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolPlace {
    Index(usize),
    Name(String),
}

/// One thing to change in a request. Without a place it means all parts of that sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    DropImage(Option<ImagePlace>),
    DropThinking,
    /// Offer the tool with an empty schema.
    RelaxSchema(Option<ToolPlace>),
    /// Input and answer together do not fit: ask for an answer of at most this many tokens.
    CapAnswer(u64),
}

/// All changes to one request so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repairs {
    pub(crate) drop_thinking: bool,
    pub(crate) drop_all_images: bool,
    pub(crate) drop_images: Vec<ImagePlace>,
    relax_all: bool,
    relax: Vec<ToolPlace>,
    pub(crate) max_tokens: Option<u64>,
    /// What was refused in earlier requests.
    pub(crate) known: Known,
}

impl Repairs {
    /// None so far, but for what is known from earlier requests.
    pub(crate) fn knowing(known: Known) -> Self {
        Self { known, ..Self::default() }
    }

    /// Takes one more change; false if it was made before and did not help. A second part of the same sort means all of
    /// them: a history with several bad images must not cost a request for each.
    pub(crate) fn add(&mut self, repair: Repair) -> bool {
        let before = self.clone();
        match repair {
            Repair::DropThinking => self.drop_thinking = true,
            Repair::DropImage(Some(place)) if self.drop_images.is_empty() => self.drop_images.push(place),
            Repair::DropImage(_) => self.drop_all_images = true,
            Repair::RelaxSchema(Some(place)) if self.relax.is_empty() => self.relax.push(place),
            Repair::RelaxSchema(_) => self.relax_all = true,
            Repair::CapAnswer(tokens) => self.max_tokens = self.max_tokens.or(Some(tokens)),
        }
        *self != before
    }

    /// The schema of this tool is to be empty. If that is new, its fingerprint goes to `left_out`.
    pub(crate) fn relaxes(&self, index: usize, name: &str, provider: &str, tool: &ToolSpec, left_out: &mut Vec<Fingerprint>) -> bool {
        let fingerprint = || Fingerprint::schema(provider, &tool.name, &tool.parameters);
        if self.refuses(index, name) {
            left_out.push(fingerprint());
            return true;
        }
        self.known.has(fingerprint)
    }

    fn refuses(&self, index: usize, name: &str) -> bool {
        self.relax_all
            || self.relax.iter().any(|place| match place {
                ToolPlace::Index(refused) => *refused == index,
                ToolPlace::Name(refused) => refused == name,
            })
    }
}

/// The change that a refusal asks for, if the status and text name a part that can be left out.
pub(crate) fn repair_for(status: u16, body: &str) -> Option<Repair> {
    // 413 and 422 are what gateways make of the same refusals.
    if !matches!(status, 400 | 413 | 422) {
        return None;
    }
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let error = parsed.as_ref().map(|body| body.get("error").unwrap_or(body));
    let field = |name: &str| error.and_then(|error| error.get(name)).and_then(Value::as_str).unwrap_or("");
    let text = format!("{}\n{}", if field("message").is_empty() { body } else { field("message") }, field("param"));
    let lower = text.to_ascii_lowercase();

    if let Some(tokens) = answer_room(&lower) {
        return Some(Repair::CapAnswer(tokens));
    }
    if lower.contains("input_schema")
        || lower.contains("schema for function")
        || lower.contains("function.parameters")
        || (lower.contains("tools") && lower.contains("schema"))
    {
        return Some(Repair::RelaxSchema(tool_place(&text)));
    }
    // Replayed thinking that the server does not take; one that it misses is another matter.
    let unwelcome = ["unsupported", "not supported", "not permitted", "unrecognized", "unexpected", "unknown"];
    if lower.contains("reasoning_") && unwelcome.iter().any(|word| lower.contains(word)) {
        return Some(Repair::DropThinking);
    }
    if lower.contains("signature") || (lower.contains("thinking") && (lower.contains("block") || lower.contains("messages."))) {
        return Some(Repair::DropThinking);
    }
    if lower.contains("image") {
        return Some(Repair::DropImage(image_place(&lower)));
    }
    None
}

/// `input length and max_tokens exceed context limit: 190000 + 64000 > 200000`: the room that is left for the answer.
fn answer_room(text: &str) -> Option<u64> {
    if !text.contains("max_tokens") {
        return None;
    }
    let (_, numbers) = text.split_once("exceed context limit:")?;
    let (input, rest) = numbers.split_once('+')?;
    let (_, limit) = rest.split_once('>')?;
    let digits: String = limit.trim().chars().take_while(char::is_ascii_digit).collect();
    let room = digits.parse::<u64>().ok()?.checked_sub(input.trim().parse().ok()?)?;
    (room >= LEAST_MAX_TOKENS).then_some(room)
}

/// `tools.3.custom.input_schema`, `tools[3].function.parameters`, `schema for function 'name'`.
fn tool_place(text: &str) -> Option<ToolPlace> {
    if let Some(index) = ["tools.", "tools["].iter().find_map(|before| number_after(text, before)) {
        return Some(ToolPlace::Index(index));
    }
    let (_, rest) = text.split_once("function ")?;
    let quote = rest.chars().next().filter(|it| matches!(it, '\'' | '"' | '`'))?;
    let (name, _) = rest[1..].split_once(quote)?;
    Some(ToolPlace::Name(name.to_owned()))
}

/// `messages.3.content.1.image.source`, `messages.3.content.0.tool_result.content.1.image`.
fn image_place(text: &str) -> Option<ImagePlace> {
    let (_, path) = text.split_once("messages.")?;
    let mut steps = path.split(['.', ':', ' ']);
    let message = steps.next()?.parse().ok()?;
    if steps.next() != Some("content") {
        return None;
    }
    let block = steps.next()?.parse().ok()?;
    let inner = match (steps.next(), steps.next()) {
        (Some("tool_result"), Some("content")) => Some(steps.next()?.parse().ok()?),
        _ => None,
    };
    Some(ImagePlace { message, block, inner })
}

fn number_after(text: &str, before: &str) -> Option<usize> {
    let (_, rest) = text.split_once(before)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{ImagePlace, Repair, Repairs, ToolPlace, repair_for};

    fn anthropic(message: &str) -> String {
        serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).to_string()
    }

    fn openai(message: &str, param: &str) -> String {
        serde_json::json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": null}}).to_string()
    }

    #[test]
    fn refusals_name_their_part() {
        let place = |message, block, inner| Some(ImagePlace { message, block, inner });
        for (status, body, expected) in [
            (400, anthropic("messages.1.content.0: Invalid `signature` in `thinking` block"), Some(Repair::DropThinking)),
            (
                400,
                anthropic("messages.3.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
                Some(Repair::DropThinking),
            ),
            (
                400,
                anthropic("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"),
                Some(Repair::DropImage(place(0, 1, None))),
            ),
            (
                400,
                anthropic("messages.12.content.0.tool_result.content.1.image.source.base64.data: dimensions exceed 8000 pixels"),
                Some(Repair::DropImage(place(12, 0, Some(1)))),
            ),
            (400, openai("'messages.2': property 'reasoning_content' is unsupported", ""), Some(Repair::DropThinking)),
            (400, openai("The reasoning_content in the thinking mode must be passed back to the API", ""), None),
            (
                400,
                anthropic(
                    "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
                ),
                Some(Repair::DropThinking),
            ),
            (
                400,
                anthropic(
                    "messages.88.content.1.image.source.base64.data: dimensions exceed max allowed size for many-image requests: 2000 pixels",
                ),
                Some(Repair::DropImage(place(88, 1, None))),
            ),
            (400, anthropic("Could not process image"), Some(Repair::DropImage(None))),
            (413, openai("image too large", ""), Some(Repair::DropImage(None))),
            (400, openai("Invalid content", "messages[0].content[1].image_url"), Some(Repair::DropImage(None))),
            (400, anthropic("tools.7.custom.input_schema: JSON schema is invalid"), Some(Repair::RelaxSchema(Some(ToolPlace::Index(7))))),
            (
                400,
                openai("Invalid schema for function 'make_image': array schema missing items", "tools[2].function.parameters"),
                Some(Repair::RelaxSchema(Some(ToolPlace::Index(2)))),
            ),
            (
                400,
                openai("Invalid schema for function 'make_image': array schema missing items", ""),
                Some(Repair::RelaxSchema(Some(ToolPlace::Name("make_image".into())))),
            ),
            (
                400,
                anthropic("input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease one"),
                Some(Repair::CapAnswer(10_000)),
            ),
            (400, anthropic("input length and `max_tokens` exceed context limit: 199900 + 64000 > 200000"), None),
            (400, anthropic("max_tokens: must be positive"), None),
            (400, anthropic("thinking.budget_tokens: must be at least 1024"), None),
            (400, "no image for you".into(), Some(Repair::DropImage(None))),
            (401, anthropic("messages.1.content.0: Invalid `signature` in `thinking` block"), None),
            (500, anthropic("Could not process image"), None),
        ] {
            assert_eq!(repair_for(status, &body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_second_bad_part_of_a_sort_means_all_and_a_third_is_hopeless() {
        let mut repairs = Repairs::default();
        let place = |message| Repair::DropImage(Some(ImagePlace { message, block: 0, inner: None }));
        assert!(repairs.add(place(1)));
        assert!(!repairs.drop_all_images);
        assert!(repairs.add(place(3)));
        assert!(repairs.drop_all_images);
        assert!(!repairs.add(place(5)));
        assert!(repairs.add(Repair::DropThinking));
        assert!(!repairs.add(Repair::DropThinking));
        assert!(repairs.add(Repair::RelaxSchema(Some(ToolPlace::Name("a".into())))));
        assert!(repairs.refuses(4, "a") && !repairs.refuses(4, "b"));
        assert!(repairs.add(Repair::RelaxSchema(None)));
        assert!(repairs.refuses(4, "b"));
        assert!(repairs.add(Repair::CapAnswer(2000)) && !repairs.add(Repair::CapAnswer(3000)));
    }
}
