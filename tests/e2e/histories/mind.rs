//! What the model says while a history grows: everything that real ones say, also what they should not.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Kind, RecordedRequest, Reply};

use crate::support::Dice;

/// What the model says once it is asked to be plain.
pub(super) const PLAIN: &str = "All is well.";

/// Answers of a run that may call tools; what follows is text.
const LONGEST_TOOL_LOOP: usize = 4;

/// A model of many moods.
pub(super) struct Mind {
    pub(super) dice: Dice,
    /// Says nothing but [`PLAIN`].
    pub(super) plain: bool,
    calls: u64,
}

impl Mind {
    pub(super) fn new(dice: Dice) -> Self {
        Self { dice, plain: false, calls: 0 }
    }

    pub(super) fn answer(&mut self, request: &RecordedRequest) -> Reply {
        if self.plain {
            return Answer::says(PLAIN).into();
        }
        let thinks = !request.body["thinking"].is_null() || !request.body["reasoning_effort"].is_null();
        let mut answer = Answer::new();
        if thinks && !self.dice.one_in(5) {
            answer = self.think(answer, request);
        }
        answer = self.say(answer, request);
        match self.dice.range(0, 24) {
            0 => answer = answer.stop(if request.kind == Kind::Anthropic { "max_tokens" } else { "length" }),
            1 => answer = answer.fail_after(self.dice.range(2, 8) as usize, "invalid_request_error", "the model is out of sorts"),
            2 => answer = answer.cut_at(self.dice.range(200, 900) as usize),
            3 => answer = answer.write_size(self.dice.range(1, 40) as usize),
            _ => {}
        }
        answer.pace(Duration::from_micros(self.dice.range(0, 400))).into()
    }

    fn think(&mut self, answer: Answer, request: &RecordedRequest) -> Answer {
        match self.dice.range(0, 5) {
            0 if request.kind == Kind::Anthropic => answer.redacted_thinking(&format!("hidden-{}", request.number)),
            1 if request.kind == Kind::Anthropic => {
                answer.thinking("One thought.").redacted_thinking(&format!("hidden-{}", request.number)).thinking("Another one.")
            }
            // Signed, and nothing to read.
            2 if request.kind == Kind::Anthropic => answer.signed_thinking("", &format!("sealed-{}==", request.number)),
            _ => answer.thinking(&format!("Hm, that is number {} \u{1f914}.\n", request.number)),
        }
    }

    fn say(&mut self, answer: Answer, request: &RecordedRequest) -> Answer {
        let answer = match self.dice.range(0, 10) {
            0 => answer,
            1 => answer.text_deltas([" \n", "\t"]),
            2 => answer.text_deltas(["Trailing space \n\n "]),
            3 => answer.text_deltas([""]),
            4 => answer.text("Grüße, \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} und \u{0} mehr"),
            _ => answer.text(&format!("This is answer {}, a word a delta.", request.number)),
        };
        if results_in_a_row(request) >= LONGEST_TOOL_LOOP || !self.dice.one_in(2) {
            return answer;
        }
        let calls = self.dice.range(1, 4);
        (0..calls).fold(answer, |answer, _| self.call(answer, request.kind))
    }

    fn call(&mut self, answer: Answer, kind: Kind) -> Answer {
        self.calls += 1;
        let id = match self.dice.range(0, 6) {
            _ if kind == Kind::Anthropic => format!("toolu_{}_{}", self.calls, "x".repeat(self.dice.range(0, 45) as usize)),
            // Some servers count from 0 in every answer, and some do not even count.
            0 | 1 => "call_0".to_owned(),
            2 => format!("functions.bash:{}", self.calls),
            3 => format!("c\u{e4}ll {}", self.calls),
            _ => format!("call_{}", self.calls),
        };
        let bash = |command: &str| json!({"command": command});
        let (name, arguments) = match self.dice.range(0, 16) {
            0 => ("bash", bash("echo done")),
            1 => ("bash", bash("echo oops >&2; exit 3")),
            2 => ("bash", bash("head -c 300000 /dev/zero | tr '\\0' 'x'")),
            3 => ("bash", bash("true")),
            4 => ("bash", bash("printf ' \\n\\t'")),
            5 => ("bash", bash("printf '\\377\\000\\033[31m\\355\\240\\200'")),
            6 => ("bash", bash("echo begun; sleep 0.3; echo ended")),
            7 => ("read", json!({"path": "picture.png"})),
            8 => ("read", json!({"path": "wide.png"})),
            9 => ("read", json!({"path": "page.png"})),
            10 => ("read", json!({"path": "missing.txt"})),
            11 => ("write", json!({"path": "note.txt", "content": "two\nlines"})),
            12 => ("bash", json!({})),
            13 => ("no such tool, \u{fc}berhaupt", json!({"a": [1, null, {"b": "c"}]})),
            14 => return answer.tool_call_deltas(&id, "read", ["{\"path\": \"pict", "ure.png\"", ", oh"]),
            _ => return answer.tool_call_deltas(&id, "ls", [""]),
        };
        answer.tool_call(&id, name, &arguments)
    }
}

/// How many answers with tools there were since a person spoke.
fn results_in_a_row(request: &RecordedRequest) -> usize {
    let is_result = |message: &&Value| {
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        message["role"] == "tool" || blocks.iter().any(|block| block["type"] == "tool_result")
    };
    let goes_on = |message: &&Value| message["role"] == "assistant" || is_result(message);
    request.messages().iter().rev().take_while(goes_on).filter(|message| message["role"] == "assistant").count()
}
