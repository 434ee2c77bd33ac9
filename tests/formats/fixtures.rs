//! A small transcript of each format, made by hand: what every law of readers is asked of.

/// The format's name, and a file of it.
pub const FIXTURES: &[(&str, &str)] = &[
    (
        "oasst-tree",
        r#"{"message_tree_id": "t", "prompt": {"message_id": "a", "parent_id": null, "text": "Why?",
 "role": "prompter", "replies": [{"message_id": "b", "text": "So.", "role": "assistant", "rank": 1,
 "replies": []}, {"message_id": "c", "text": "Because.", "role": "assistant", "rank": 0, "replies": []}]}}"#,
    ),
    (
        "chatgpt-export",
        r#"[{"title": "x", "id": "t", "current_node": "e", "mapping": {
"r": {"id": "r", "parent": null, "children": ["a"], "message": null},
"a": {"id": "a", "parent": "r", "children": ["b", "f"], "message": {"author": {"role": "user"}, "create_time": 1.5,
 "content": {"content_type": "text", "parts": ["Find it."]}, "recipient": "all"}},
"f": {"id": "f", "parent": "a", "children": [], "message": {"author": {"role": "assistant"},
 "content": {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hm"}]}, "recipient": "all"}},
"b": {"id": "b", "parent": "a", "children": ["c"], "message": {"author": {"role": "assistant"},
 "content": {"content_type": "code", "language": "unknown", "text": "search(it)"}, "recipient": "browser"}},
"c": {"id": "c", "parent": "b", "children": ["d"], "message": {"author": {"role": "tool", "name": "browser"},
 "content": {"content_type": "tether_quote", "url": "u", "text": "one"}, "recipient": "all"}},
"d": {"id": "d", "parent": "c", "children": ["e"], "message": {"author": {"role": "tool", "name": "browser"},
 "content": {"content_type": "tether_quote", "url": "v", "text": "two"}, "recipient": "all"}},
"e": {"id": "e", "parent": "d", "children": [], "message": {"author": {"role": "assistant"},
 "content": {"content_type": "multimodal_text", "parts": ["Here.", {"content_type": "image_asset_pointer"}]},
 "metadata": {"model_slug": "m"}, "recipient": "all"}}}}]"#,
    ),
    (
        "webui-export",
        r#"{"conversationId": "t", "branches": true, "recursive": true, "options": {"model": "m"}, "messages": [
{"messageId": "a", "parentMessageId": "00000000-0000-0000-0000-000000000000", "text": "Hi", "isCreatedByUser": true,
 "createdAt": "2024-04-09T14:32:05.230Z", "children": [
 {"messageId": "b", "text": "Yes?", "isCreatedByUser": false, "model": "m", "children": []},
 {"messageId": "c", "text": "quota", "isCreatedByUser": false, "error": true, "children": []}]}]}"#,
    ),
    (
        "openai-chat",
        r#"{"id": "t", "request": {"model": "m", "messages": [{"role": "user", "content": "Add."}]}, "status": 200,
"response": {"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [{"id": "c",
"type": "function", "function": {"name": "add", "arguments": "{}"}}]}}], "usage": {"prompt_tokens": 3}}}"#,
    ),
    (
        "anthropic",
        r#"{"id": "t", "request": {"model": "m", "system": "s", "messages": [{"role": "user", "content": "Add."}]},
"status": 200, "response": {"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "c",
"name": "add", "input": {}}], "stop_reason": "tool_use", "usage": {"input_tokens": 3}}}"#,
    ),
    (
        "claude-code",
        r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"t","message":{"role":"user","content":"Go."}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"t","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Gone."},{"type":"tool_use","id":"c","name":"Task","input":{}}]}}
{"type":"progress","uuid":"p","parentUuid":"b","sessionId":"t","parentToolUseID":"c","data":{"type":"agent_progress","agentId":"x","message":{"type":"user","uuid":"q","message":{"role":"user","content":"Look."}}}}
{"type":"user","uuid":"r","parentUuid":"p","sessionId":"t","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"Seen."}]},"toolUseResult":{"agentId":"x"}}
"#,
    ),
];
