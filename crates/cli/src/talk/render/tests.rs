//! Events as the daemon sends them in view `delta`, and the text that they become.

use super::Renderer;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::message::Message;

const USAGE: &str = r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;

fn event(json: &str) -> SessionEvent {
    serde_json::from_str(json).unwrap()
}

fn show(renderer: &mut Renderer, events: &[String]) -> String {
    events.iter().map(|json| renderer.event(&event(json))).collect()
}

fn answer(kind: &str, content: &str, stop: &str) -> String {
    format!(
        r#"{{"type":"{kind}","message":{{"role":"assistant","content":{content},"api":"a","provider":"p","model":"m","usage":{USAGE},"stopReason":"{stop}","timestamp":1{}}}}}"#,
        if stop == "error" { r#","errorMessage":"no \u001b[2Jcredit""# } else { "" }
    )
}

fn delta(kind: &str, index: usize, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(r#"{{"type":"message_update","assistantMessageEvent":{{"type":"{kind}_delta","contentIndex":{index},"delta":{text}}}}}"#)
}

fn block_end(kind: &str, index: usize) -> String {
    format!(r#"{{"type":"message_update","assistantMessageEvent":{{"type":"{kind}_end","contentIndex":{index},"content":"x"}}}}"#)
}

fn user(text: &str) -> String {
    format!(r#"{{"type":"message_end","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":1}}}}"#)
}

fn two_blocks() -> Vec<String> {
    vec![
        answer("message_start", "[]", "stop"),
        delta("thinking", 0, "hm"),
        delta("thinking", 0, "m"),
        block_end("thinking", 0),
        delta("text", 1, "Hel"),
        delta("text", 1, "lo\n"),
        delta("text", 1, "you"),
        block_end("text", 1),
        answer("message_end", r#"[{"type":"thinking","thinking":"hmm"},{"type":"text","text":"Hello\nyou"}]"#, "stop"),
    ]
}

#[test]
fn an_answer_flows_and_is_shown_once() {
    assert_eq!(show(&mut Renderer::new(false), &two_blocks()), "hmm\nHello\nyou\n");
    assert_eq!(show(&mut Renderer::new(true), &two_blocks()), "\u{1b}[2mhmm\u{1b}[0m\nHello\nyou\n");
}

#[test]
fn an_answer_that_was_not_streamed_is_shown_whole() {
    let end = answer("message_end", r#"[{"type":"text","text":"one"},{"type":"text","text":"two"}]"#, "length");
    let start = answer("message_start", "[]", "stop");
    let expected = "onetwo\n(cut off: the answer reached the model's limit)\n";
    assert_eq!(show(&mut Renderer::new(false), &[start, end]), expected);
}

#[test]
fn failures_end_the_line_and_say_why() {
    let events = [answer("message_start", "[]", "stop"), delta("text", 0, "half"), answer("message_end", "[]", "error")];
    assert_eq!(show(&mut Renderer::new(false), &events), "half\nError: no [2Jcredit\n");
    assert_eq!(show(&mut Renderer::new(true), &events), "half\n\u{1b}[31mError: no [2Jcredit\u{1b}[0m\n");
    assert_eq!(show(&mut Renderer::new(false), &[answer("message_end", "[]", "aborted")]), "(aborted)\n");
}

#[test]
fn tools_are_shown_in_short() {
    let start = |args: &str| format!(r#"{{"type":"tool_execution_start","toolCallId":"c","toolName":"ls","args":{args}}}"#);
    let end = |text: &str, failed: bool| {
        let text = serde_json::to_string(text).unwrap();
        format!(
            r#"{{"type":"tool_execution_end","toolCallId":"c","toolName":"ls","result":{{"content":[{{"type":"text","text":{text}}}]}},"isError":{failed}}}"#
        )
    };
    for (json, shown) in [
        (start(r#"{"path":"."}"#), "[ls] {\"path\":\".\"}\n".to_owned()),
        (start("{}"), "[ls]\n".to_owned()),
        (start(&format!(r#"{{"x":"{}"}}"#, "y".repeat(200))), format!("[ls] {{\"x\":\"{}...\n", "y".repeat(89))),
        (end("\n\nSOUL.md", false), "  SOUL.md\n".to_owned()),
        (end("a\nb", false), "  a (and 1 more line)\n".to_owned()),
        (end("a\nb\n\nc\n", false), "  a (and 2 more lines)\n".to_owned()),
        (end("", false), "  (no output)\n".to_owned()),
        (end("\u{1b}]0;owned\u{7}no such folder", true), "  ls failed: ]0;ownedno such folder\n".to_owned()),
    ] {
        assert_eq!(Renderer::new(false).event(&event(&json)), shown, "{json}");
    }
    let interrupted = [delta("text", 0, "I look"), start("{}"), delta("text", 1, "There.")];
    assert_eq!(show(&mut Renderer::new(false), &interrupted), "I look\n[ls]\nThere.");
}

#[test]
fn prompts_of_others_are_shown_and_own_ones_are_not_repeated() {
    let mut renderer = Renderer::new(false);
    renderer.typed("mine");
    assert_eq!(show(&mut renderer, &[user("theirs"), user("mine"), user("mine")]), "> theirs\n> mine\n");
    renderer.typed("refused");
    renderer.refused();
    assert_eq!(show(&mut renderer, &[user("refused")]), "> refused\n");
    renderer.typed("/expanded");
    let ended = r#"{"type":"agent_end","messages":[]}"#.to_owned();
    assert_eq!(show(&mut renderer, &[user("long text"), ended, user("/expanded")]), "> long text\n> /expanded\n");
}

#[test]
fn what_is_in_flight_goes_on() {
    let mut renderer = Renderer::new(false);
    let SessionEvent::MessageEnd { message: Message::Assistant(message), .. } =
        event(&answer("message_end", r#"[{"type":"text","text":"Hel"}]"#, "stop"))
    else {
        panic!()
    };
    assert_eq!(renderer.in_flight(&message), "Hel");
    let rest = [delta("text", 0, "lo"), block_end("text", 0), answer("message_end", r#"[{"type":"text","text":"Hello"}]"#, "stop")];
    assert_eq!(show(&mut renderer, &rest), "lo\n");
}

#[test]
fn nothing_said_is_obeyed_by_the_terminal() {
    let mut renderer = Renderer::new(false);
    assert_eq!(show(&mut renderer, &[delta("text", 0, "a\u{1b}[31mb\rc\u{9b}2Jd\u{8}\te\nf")]), "a[31mbc2Jd\te\nf");
    assert_eq!(renderer.note("x\u{1b}[2J\ny"), "\nx[2J y\n");
}

#[test]
fn the_invitation_to_type_gives_way() {
    let mut plain = Renderer::new(false);
    assert_eq!((plain.marker(), plain.marker()), ("> ".to_owned(), String::new()));
    assert_eq!(plain.note("news"), "\nnews\n");
    assert_eq!(plain.marker(), "> ");
    plain.entered();
    assert_eq!(plain.note("news"), "news\n");
    let advice = format!("{}run /login", "what is wrong, ".repeat(10));
    assert_eq!(plain.note(&advice), format!("{advice}\n"));
    let mut styled = Renderer::new(true);
    assert_eq!(styled.marker(), "> ");
    assert_eq!(show(&mut styled, &[delta("text", 0, "hi")]), "\r\u{1b}[Khi");
    assert_eq!(styled.marker(), "\n> ");
}
