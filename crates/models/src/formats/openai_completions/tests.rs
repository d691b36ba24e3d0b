//! Recorded shapes of streams, and golden bodies.

use serde_json::{Value, json};
use wolli_protocol::message::StopReason;
use wolli_protocol::model::{Model, ThinkingLevel};

use super::{Compat, write};
use crate::repair::{Repair, Repairs};
use crate::request::{CacheRetention, ModelRequest};
use crate::testing::{OPENAI, PNG, Replay, model, replay, replay_every_way, request, tool};

const END: &str = "Stream ended without finish_reason";

fn stream(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn delta(delta: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-test", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "chatcmpl-1", "model": "gpt-test", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call(index: u64, id: Value, name: Value, arguments: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}))
}

fn whole(chunks: &[Value]) -> Replay {
    replay_every_way(&model(OPENAI), &stream(chunks), END)
}

fn content(replay: &Replay) -> Value {
    serde_json::to_value(&replay.message.content).unwrap()
}

#[test]
fn half_a_character_costs_no_more_than_itself() {
    let half = delta(json!({"content": "a HALF b"})).to_string().replace("HALF", r"\ud83d");
    let replay = replay(&model(OPENAI), [format!("data: {half}\n\n{}", stream(&[finish("stop")])).as_bytes()]);
    assert_eq!(replay.message.error_message, None);
    assert_eq!(content(&replay), json!([{"type": "text", "text": "a \u{fffd} b"}]));
}

#[test]
fn text_thinking_and_usage_end_together() {
    let replay = whole(&[
        delta(json!({"role": "assistant", "content": "", "reasoning_content": null})),
        delta(json!({"reasoning_content": "Let me "})),
        delta(json!({"reasoning_content": "see.", "reasoning": "the same again"})),
        delta(json!({"content": "Hello", "reasoning_content": ""})),
        delta(json!({"content": " — 😀"})),
        finish("stop"),
        json!({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 150, "completion_tokens": 20, "total_tokens": 170,
            "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10}}}),
    ]);
    assert_eq!(
        content(&replay),
        json!([{"type": "thinking", "thinking": "Let me see.", "thinkingSignature": "reasoning_content"}, {"type": "text", "text": "Hello — 😀"}])
    );
    let usage = replay.message.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens), (100, 20, 40, 10, 170));
    assert!(usage.cost.total.0 > 0.0);
    let kinds: Vec<_> = serde_json::to_value(&replay.steps).unwrap().as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
    assert_eq!(
        Value::from(kinds),
        json!(["thinking_start", "thinking_delta", "thinking_delta", "text_start", "text_delta", "text_delta", "thinking_end", "text_end"])
    );
    assert_eq!((replay.message.stop_reason, replay.message.response_id.as_deref()), (StopReason::Stop, Some("chatcmpl-1")));
    assert_eq!(replay.message.response_model, None);
}

#[test]
fn each_thinking_field_is_remembered() {
    for field in ["reasoning_content", "reasoning", "reasoning_text"] {
        let replay = whole(&[delta(json!({field: "Hm"})), delta(json!({"content": "x"})), finish("stop")]);
        assert_eq!(content(&replay)[0], json!({"type": "thinking", "thinking": "Hm", "thinkingSignature": field}));
    }
    let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "x"}]);
    let replay = whole(&[delta(json!({"content": parts})), finish("stop")]);
    assert_eq!(content(&replay)[1], json!({"type": "text", "text": "x"}));
}

#[test]
fn parallel_calls_by_index_by_id_and_by_neither() {
    let expected = json!([
        {"type": "toolCall", "id": "a", "name": "read", "arguments": {"path": "x"}},
        {"type": "toolCall", "id": "b", "name": "ls", "arguments": {"path": "y"}}
    ]);
    let none = Value::Null;
    let by_index = [
        call(0, json!("a"), json!("read"), ""),
        call(0, none.clone(), none.clone(), "{\"pa"),
        call(1, json!("b"), json!("ls"), "{\"path\":"),
        call(0, none.clone(), none.clone(), "th\":\"x\"}"),
        call(1, none.clone(), none.clone(), "\"y\"}"),
    ];
    // Every chunk repeats id and name.
    let repeated = [
        call(0, json!("a"), json!("read"), "{\"path\":"),
        call(0, json!("a"), json!("read"), "\"x\"}"),
        call(1, json!("b"), json!("ls"), "{\"path\":\"y\"}"),
    ];
    // All calls have the index 0.
    let same_index = [call(0, json!("a"), json!("read"), "{\"path\":\"x\"}"), call(0, json!("b"), json!("ls"), "{\"path\":\"y\"}")];
    // No index at all, arguments as objects.
    let bare = |id: &str, name: &str, path: &str| {
        delta(json!({"tool_calls": [{"id": id, "function": {"name": name, "arguments": {"path": path}}}]}))
    };
    let by_id = [bare("a", "read", "x"), bare("b", "ls", "y")];
    // The name comes after the first arguments.
    let late_name = [
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{\"path\":"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"name": "read", "arguments": "\"x\"}"}}]})),
        call(1, json!("b"), json!("ls"), "{\"path\":\"y\"}"),
    ];
    for chunks in [&by_index[..], &repeated, &same_index, &by_id, &late_name] {
        let replay = whole(&[chunks, &[finish("tool_calls")]].concat());
        assert_eq!(content(&replay), expected, "{chunks:?}");
        assert_eq!(replay.message.stop_reason, StopReason::ToolUse);
    }
    let unnamed = whole(&[call(0, none.clone(), json!("read"), "{}"), call(1, json!(""), json!("read"), "{}"), finish("tool_calls")]);
    let ids: Vec<_> = unnamed.message.tool_calls().map(|call| call.id.clone()).collect();
    assert_eq!(ids, ["call_7_1", "call_7_2"]);
    let never_named = whole(&[call(0, json!("a"), none, "{\"path\":\"x\"}"), finish("tool_calls")]);
    assert_eq!(content(&never_named), json!([{"type": "toolCall", "id": "a", "name": "", "arguments": {"path": "x"}}]));
}

#[test]
fn encrypted_thinking_stays_with_its_call() {
    let detail = json!({"type": "reasoning.encrypted", "id": "a", "data": "c2Vj", "format": "f"});
    let with_detail = delta(json!({"reasoning_details": [detail, {"type": "reasoning.summary", "summary": "s"}]}));
    let begin = call(0, json!("a"), json!("read"), "{}");
    for chunks in [[begin.clone(), with_detail.clone()], [with_detail, begin]] {
        let replay = whole(&[&chunks[..], &[finish("tool_calls")]].concat());
        assert_eq!(content(&replay)[0]["thoughtSignature"], json!(detail.to_string()));
    }
}

#[test]
fn finish_reasons() {
    for (reason, stop_reason, error) in [
        ("stop", StopReason::Stop, None),
        ("end", StopReason::Stop, None),
        ("length", StopReason::Length, None),
        ("function_call", StopReason::ToolUse, None),
        ("content_filter", StopReason::Error, Some("Provider finish_reason: content_filter")),
        ("network_error", StopReason::Error, Some("Provider finish_reason: network_error")),
        ("error", StopReason::Error, Some("Provider finish_reason: error")),
    ] {
        let replay = whole(&[delta(json!({"content": "Hm"})), finish(reason)]);
        assert_eq!((replay.message.stop_reason, replay.message.error_message.as_deref()), (stop_reason, error), "{reason}");
    }
    let refused = whole(&[delta(json!({"refusal": "I can"})), delta(json!({"refusal": "not."})), finish("stop")]);
    assert_eq!((refused.message.stop_reason, refused.message.error_message.as_deref()), (StopReason::Error, Some("I cannot.")));
}

#[test]
fn a_call_that_breaks_off_within_a_string_was_cut_off_whatever_the_server_says() {
    let last = |arguments: &str, reason: &str| {
        let first = call(0, json!("a"), json!("bash"), r#"{"command":"ls"}"#);
        whole(&[first, call(1, json!("b"), json!("bash"), arguments), finish(reason)]).message.stop_reason
    };
    for reason in ["stop", "tool_calls"] {
        assert_eq!(last(r#"{"command":"rm -r /tmp"#, reason), StopReason::Length, "{reason}");
        assert_eq!(last(r#"{"command":"echo \"#, reason), StopReason::Length, "{reason}");
        // Only the brackets are missing: nothing was left out that the repair would have to invent.
        assert_ne!(last(r#"{"command":"ls""#, reason), StopReason::Length, "{reason}");
        assert_ne!(last("", reason), StopReason::Length, "{reason}");
    }
    assert_eq!(last(r#"{"command":"r"#, "content_filter"), StopReason::Error);
}

#[test]
fn usage_variants_and_a_missing_end_mark() {
    let usage_of = |chunks: &[Value]| {
        let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        let replay = replay(&model(OPENAI), [stream.as_bytes()]);
        assert_eq!(replay.message.stop_reason, StopReason::Stop, "no [DONE] is fine after a finish reason");
        let usage = replay.message.usage;
        (usage.input, usage.output, usage.cache_read, usage.total_tokens)
    };
    let moonshot = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 3}}]});
    assert_eq!(usage_of(&[moonshot]), (10, 5, 0, 15));
    let deepseek = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}});
    assert_eq!(usage_of(&[finish("stop"), deepseek]), (6, 5, 4, 15));
    let nonsense =
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": null, "prompt_tokens_details": {"cached_tokens": 9}}});
    assert_eq!(usage_of(&[finish("stop"), nonsense]), (0, 0, 9, 9));
    assert_eq!(usage_of(&[finish("stop"), json!({"choices": [], "usage": null})]), (0, 0, 0, 0));
}

#[test]
fn errors_and_odd_chunks() {
    let replay_of = |data: &str| replay(&model(OPENAI), [format!("data: {data}\n\n").as_bytes()]);
    let error = replay_of(r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream"}}}"#);
    let failure = error.failure.unwrap();
    assert_eq!((failure.text.as_str(), failure.may_pass), ("Provider returned error\nupstream", true));
    assert!(!replay_of(r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#).failure.unwrap().may_pass);
    assert!(!replay_of(r#"{"error":"bad"}"#).failure.unwrap().may_pass);
    for data in [
        "{}",
        "[]",
        "null",
        r#"{"choices":null}"#,
        r#"{"choices":[7]}"#,
        r#"{"choices":[{"delta":null}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[7,{}]}}]}"#,
        r#"{"choices":[{"delta":{"content":{"a":1},"reasoning_details":7}}]}"#,
        "[DONE]",
    ] {
        let replay = replay_of(data);
        assert_eq!(replay.message.error_message.as_deref(), Some(END), "{data}");
    }
    assert!(replay_of("{").message.error_message.unwrap().starts_with("Could not parse"));
}

fn body(request: &ModelRequest) -> Value {
    body_with(request, CacheRetention::Short, &Repairs::default())
}

fn body_with(request: &ModelRequest, retention: CacheRetention, repairs: &Repairs) -> Value {
    serde_json::from_slice(&write(request, retention, repairs).unwrap().body).unwrap()
}

fn conversation() -> Value {
    let own = json!({"api": OPENAI, "provider": "openai", "model": "gpt-test"});
    let mut answer = json!({"role": "assistant", "stopReason": "toolUse", "content": [
        {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "reasoning_content"},
        {"type": "thinking", "thinking": "So.", "thinkingSignature": "reasoning_content"},
        {"type": "text", "text": "I "}, {"type": "text", "text": "read."},
        {"type": "toolCall", "id": "a|b", "name": "read", "arguments": {"path": "x"}, "thoughtSignature": "{\"type\":\"reasoning.encrypted\",\"id\":\"a\"}"},
        {"type": "toolCall", "id": "t2", "name": "read", "arguments": {}}]});
    for (key, value) in own.as_object().unwrap() {
        answer[key] = value.clone();
    }
    json!([
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]},
        answer,
        {"role": "toolResult", "toolCallId": "a|b", "content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
        {"role": "toolResult", "toolCallId": "t2", "content": []},
        {"role": "user", "content": [{"type": "text", "text": "Go on"}]}
    ])
}

#[test]
fn golden_body_of_a_conversation_with_tools_and_images() {
    let mut request = request(model(OPENAI), conversation());
    request.tools = vec![tool("read")].into();
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}});
    let expected = json!({
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
            {"role": "assistant", "content": "I read.", "reasoning_content": "Hm.\nSo.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}},
                {"id": "t2", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
                "reasoning_details": [{"type": "reasoning.encrypted", "id": "a"}]},
            {"role": "tool", "content": "(see attached image)", "tool_call_id": "a"},
            {"role": "tool", "content": "(no output)", "tool_call_id": "t2"},
            {"role": "user", "content": [{"type": "text", "text": "Attached image(s) from tool result:"}, image]},
            {"role": "user", "content": "Go on"}
        ],
        "stream": true,
        "prompt_cache_key": "session-1",
        "stream_options": {"include_usage": true},
        "store": false,
        "tools": [{"type": "function", "function": {"name": "read", "description": "Runs read.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false}, "strict": false}}]
    });
    let written = write(&request, CacheRetention::Short, &Repairs::default()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written.body).unwrap(), expected);
    assert_eq!(String::from_utf8(written.body).unwrap(), expected.to_string());
}

#[test]
fn each_switch_changes_what_it_says() {
    let with = |compat: Value, change: &dyn Fn(&mut ModelRequest)| {
        let mut request = request(model(OPENAI), conversation());
        request.model.compat = compat.as_object().cloned();
        change(&mut request);
        body(&request)
    };
    let nothing = |_: &mut ModelRequest| {};
    let reasons = |request: &mut ModelRequest| request.model.reasoning = true;
    assert_eq!(with(json!({}), &reasons)["messages"][0]["role"], "developer");
    assert_eq!(with(json!({"supportsDeveloperRole": false}), &reasons)["messages"][0]["role"], "system");
    assert_eq!(with(json!({"supportsStore": false}), &nothing).get("store"), None);
    assert_eq!(with(json!({"supportsUsageInStreaming": false}), &nothing).get("stream_options"), None);
    let capped = |request: &mut ModelRequest| request.max_tokens = Some(9);
    assert_eq!(with(json!({}), &capped)["max_completion_tokens"], 9);
    assert_eq!(with(json!({"maxTokensField": "max_tokens"}), &capped)["max_tokens"], 9);
    assert_eq!(with(json!({"requiresToolResultName": true}), &nothing)["messages"][3]["name"], "read");
    let bridged = with(json!({"requiresAssistantAfterToolResult": true}), &nothing);
    assert_eq!(bridged["messages"][5], json!({"role": "assistant", "content": "I have processed the tool results."}));
    let as_text = with(json!({"requiresThinkingAsText": true}), &nothing);
    assert_eq!(as_text["messages"][2]["content"], json!([{"type": "text", "text": "Hm.\n\nSo."}, {"type": "text", "text": "I read."}]));
    assert_eq!(as_text["messages"][2].get("reasoning_content"), None);
    let other_model = |request: &mut ModelRequest| request.model.id = "gpt-other".into();
    let required = with(json!({"requiresReasoningContentOnAssistantMessages": true}), &other_model);
    assert_eq!(required["messages"][2]["reasoning_content"], "");
    assert_eq!(required["messages"][2]["content"], "Hm.So.I read.");
    assert_eq!(required["messages"][2].get("reasoning_details"), None);
    // A history with calls and no tools on offer.
    assert_eq!(with(json!({}), &nothing)["tools"], json!([]));
    let offered = |request: &mut ModelRequest| request.tools = vec![tool("read")].into();
    assert_eq!(with(json!({"supportsStrictMode": false}), &offered)["tools"][0]["function"].get("strict"), None);
    assert_eq!(with(json!({"zaiToolStream": true}), &offered)["tool_stream"], true);
    let routing = json!({"only": ["a"], "sort": {"by": "price"}});
    assert_eq!(with(json!({"openRouterRouting": routing}), &nothing)["provider"], routing);
    assert_eq!(with(json!({"vercelGatewayRouting": {"order": ["b"]}}), &nothing).get("providerOptions"), None);
    let vercel = |request: &mut ModelRequest| request.model.base_url = "https://ai-gateway.vercel.sh/v1".into();
    assert_eq!(with(json!({"vercelGatewayRouting": {"order": ["b"]}}), &vercel)["providerOptions"], json!({"gateway": {"order": ["b"]}}));
    let marked = with(json!({"cacheControlFormat": "anthropic"}), &offered);
    let ephemeral = json!({"type": "ephemeral"});
    assert_eq!(marked["messages"][0]["content"], json!([{"type": "text", "text": "Be brief.", "cache_control": ephemeral}]));
    assert_eq!(marked["messages"][6]["content"], json!([{"type": "text", "text": "Go on", "cache_control": ephemeral}]));
    assert_eq!(marked["tools"][0]["cache_control"], ephemeral);
    assert_eq!(marked.to_string().matches("cache_control").count(), 3);
}

#[test]
fn thinking_in_each_format() {
    let mapped = json!({"off": "zero", "high": "max"});
    let no_off = json!({"off": null});
    let empty = json!({});
    for (format, map, level, expected) in [
        ("openai", &empty, "high", json!({"reasoning_effort": "high"})),
        ("openai", &mapped, "high", json!({"reasoning_effort": "max"})),
        ("openai", &empty, "off", json!({})),
        ("openai", &mapped, "off", json!({"reasoning_effort": "zero"})),
        ("openai", &empty, "xhigh", json!({"reasoning_effort": "high"})),
        ("openrouter", &empty, "low", json!({"reasoning": {"effort": "low"}})),
        ("openrouter", &empty, "off", json!({"reasoning": {"effort": "none"}})),
        ("openrouter", &mapped, "off", json!({"reasoning": {"effort": "zero"}})),
        ("openrouter", &no_off, "off", json!({})),
        ("deepseek", &empty, "low", json!({"thinking": {"type": "enabled"}, "reasoning_effort": "low"})),
        ("deepseek", &empty, "off", json!({"thinking": {"type": "disabled"}})),
        ("zai", &empty, "low", json!({"thinking": {"type": "enabled"}})),
        ("together", &empty, "low", json!({"reasoning": {"enabled": true}, "reasoning_effort": "low"})),
        ("together", &empty, "off", json!({"reasoning": {"enabled": false}})),
        ("qwen", &empty, "low", json!({"enable_thinking": true})),
        ("qwen-chat-template", &empty, "off", json!({"chat_template_kwargs": {"enable_thinking": false, "preserve_thinking": true}})),
        ("string-thinking", &mapped, "high", json!({"thinking": "max"})),
        ("string-thinking", &empty, "off", json!({"thinking": "none"})),
        ("string-thinking", &no_off, "off", json!({})),
        ("ant-ling", &mapped, "high", json!({"reasoning": {"effort": "max"}})),
        ("ant-ling", &mapped, "low", json!({})),
        ("ant-ling", &mapped, "off", json!({})),
    ] {
        let mut request = request(model(OPENAI), json!([{"role": "user", "content": "x"}]));
        request.model.reasoning = true;
        request.model.compat =
            json!({"thinkingFormat": format, "supportsStore": false, "supportsUsageInStreaming": false}).as_object().cloned();
        request.model.thinking_level_map = Some(serde_json::from_value(map.clone()).unwrap());
        request.thinking = ThinkingLevel::parse(level).unwrap();
        let mut body = body_with(&request, CacheRetention::None, &Repairs::default());
        for key in ["model", "messages", "stream"] {
            body.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(body, expected, "{format} {map} {level}");
        request.model.reasoning = false;
        let plain = body_with(&request, CacheRetention::None, &Repairs::default());
        assert_eq!(plain.as_object().unwrap().len(), 3, "a model that cannot think is told nothing");
    }
}

#[test]
fn what_is_known_of_servers() {
    let known = |provider: &str, base_url: &str, id: &str, reasoning: bool| {
        let compat = Compat::of(&Model { provider: provider.into(), base_url: base_url.into(), id: id.into(), reasoning, ..model(OPENAI) });
        let flags = [
            ("store", compat.store),
            ("developer", compat.developer_role),
            ("effort", compat.reasoning_effort),
            ("completion", compat.max_tokens_field == "max_completion_tokens"),
            ("strict", compat.strict_mode),
            ("long", compat.long_cache_retention),
            ("required", compat.reasoning_content_required),
            ("marked", compat.anthropic_cache_control),
        ];
        let words: Vec<_> = flags.iter().filter(|(_, on)| *on).map(|(word, _)| *word).collect();
        format!("{} {:?}", words.join(" "), compat.thinking_format).trim().to_owned()
    };
    for (provider, url, id, expected) in [
        ("groq", "https://api.groq.com/openai/v1", "m", "store developer effort completion strict long OpenAi"),
        ("openrouter", "x", "moonshotai/k", "store effort completion strict long OpenRouter"),
        ("openrouter", "x", "openai/m", "store developer effort completion strict long OpenRouter"),
        ("custom", "https://openrouter.ai/api/v1", "anthropic/m", "store developer effort completion strict long marked OpenRouter"),
        ("deepseek", "x", "m", "effort completion strict long required DeepSeek"),
        ("xai", "x", "m", "completion strict long OpenAi"),
        ("cerebras", "x", "m", "effort completion strict long OpenAi"),
        ("opencode-go", "x", "m", "effort completion strict long OpenAi"),
        ("custom", "https://llm.chutes.ai/v1", "m", "effort strict long OpenAi"),
        ("zai", "x", "m", "completion strict long Zai"),
        ("zai-coding-cn", "x", "m", "completion strict long Zai"),
        ("moonshotai-cn", "x", "m", "long OpenAi"),
        ("together", "x", "m", "Together"),
        ("nvidia", "x", "m", "OpenAi"),
        ("ant-ling", "x", "m", "strict AntLing"),
        ("cloudflare-workers-ai", "x", "m", "effort completion strict OpenAi"),
        ("cloudflare-ai-gateway", "x", "m", "OpenAi"),
        ("ollama", "x", "m", "effort strict long OpenAi"),
        ("custom", "http://127.0.0.1:1234/v1", "m", "effort strict long OpenAi"),
        ("custom", "http://localhost:8080/v1", "m", "strict long OpenAi"),
        ("custom", "http://localhost:8000/v1", "Qwen3-8B", "strict long QwenChatTemplate"),
        ("custom", "http://10.0.0.7:8000/v1", "m", "store developer effort completion strict long OpenAi"),
        ("litellm", "x", "m", "effort long OpenAi"),
    ] {
        assert_eq!(known(provider, url, id, true), expected, "{provider} {url} {id}");
    }
    assert_eq!(known("ollama", "x", "m", false), "strict long OpenAi");
}

#[test]
fn long_retention_and_repairs() {
    let mut asked = request(Model { base_url: "https://example.org/v1".into(), ..model(OPENAI) }, conversation());
    asked.session_id = "s".repeat(80);
    let long = body_with(&asked, CacheRetention::Long, &Repairs::default());
    assert_eq!((&long["prompt_cache_key"], &long["prompt_cache_retention"]), (&json!("s".repeat(64)), &json!("24h")));
    assert_eq!(body(&asked).get("prompt_cache_key"), None);
    let mut repairs = Repairs::default();
    repairs.add(Repair::DropImage(None));
    repairs.add(Repair::DropThinking);
    let repaired = body_with(&asked, CacheRetention::Short, &repairs);
    assert!(!repaired.to_string().contains("image_url") && !repaired.to_string().contains("Hm."));
}
