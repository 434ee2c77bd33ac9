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
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"t","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Gone."}]}}
"#,
    ),
    (
        "gemini-contents",
        r#"{"id": "t", "endpoint": "/v1beta/models/g:generateContent", "request": {"systemInstruction": {"parts": [{"text": "s"}]},
"contents": [{"role": "user", "parts": [{"text": "Add."}]}]}, "status": 200, "response": {"candidates": [{"content":
{"role": "model", "parts": [{"functionCall": {"name": "add", "args": {}}, "thoughtSignature": "x"}]}}]}}"#,
    ),
    (
        "gemini-cli",
        r#"{"sessionId": "t", "projectHash": "p", "messages": [{"id": "a", "type": "user", "content": "Add."},
{"id": "b", "type": "gemini", "content": "", "toolCalls": [{"id": "c", "name": "add", "args": {}, "status": "success",
"result": [{"functionResponse": {"id": "c", "name": "add", "response": {"output": "3"}}}]}]}]}"#,
    ),
    (
        "adk-session",
        r#"{"id": "t", "events": [{"id": "a", "invocation_id": "i", "author": "user", "timestamp": 1.5, "content":
{"parts": [{"text": "Add."}], "role": "user"}}, {"id": "b", "invocation_id": "i", "author": "agent", "timestamp": 2.5,
"content": {"parts": [{"function_call": {"name": "add", "args": {}}}], "role": "model"}}]}"#,
    ),
    (
        "bedrock-converse",
        r#"{"id": "t", "endpoint": "/model/m/converse", "request": {"system": [{"text": "s"}], "messages": [{"role": "user",
"content": [{"text": "Add."}]}]}, "status": 200, "response": {"output": {"message": {"role": "assistant", "content":
[{"toolUse": {"toolUseId": "c", "name": "add", "input": {}}}]}}, "stopReason": "tool_use", "usage": {"inputTokens": 3}}}"#,
    ),
    (
        "openhands-events",
        r#"{"kind":"SystemPromptEvent","source":"agent","system_prompt":{"type":"text","text":"s"},"tools":[],"id":"a","timestamp":"2026-01-02T03:04:05"}
{"kind":"MessageEvent","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"Add."}]},"id":"b","timestamp":"2026-01-02T03:04:05"}
{"kind":"ActionEvent","source":"agent","thought":[],"action":{},"tool_name":"add","tool_call_id":"c","tool_call":{"id":"c","name":"add","arguments":"{}"},"llm_response_id":"r","id":"d","timestamp":"2026-01-02T03:04:05"}
{"kind":"ObservationEvent","source":"environment","observation":{"content":[{"type":"text","text":"3"}]},"tool_name":"add","tool_call_id":"c","action_id":"d","id":"e","timestamp":"2026-01-02T03:04:05"}
{"kind":"Condensation","source":"environment","forgotten_event_ids":["d","e"],"summary":"Added.","id":"f","timestamp":"2026-01-02T03:04:05"}
"#,
    ),
    (
        "letta-af",
        r#"{"agents": [{"id": "agent-0", "name": "t", "in_context_message_ids": ["a", "c"], "messages": [{"id": "a", "role": "user",
"content": [{"type": "text", "text": "Add."}]}, {"id": "b", "role": "approval", "tool_calls": [{"id": "x", "function":
{"name": "add", "arguments": "{}"}}]}, {"id": "c", "role": "tool", "tool_returns": [{"tool_call_id": "x", "status": "success",
"func_response": "3"}]}]}]}"#,
    ),
    (
        "langchain",
        r#"{"id": "t", "messages": [{"type": "human", "data": {"content": "Add.", "id": "a"}}, {"type": "ai", "content": "",
"additional_kwargs": {}, "id": "b", "tool_calls": [{"name": "add", "args": {}, "id": "c", "type": "tool_call"}]},
{"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ToolMessage"], "kwargs": {"content": "3",
"tool_call_id": "c", "status": "success"}}, {"type": "remove", "id": "a"}]}"#,
    ),
    (
        "langgraph-checkpoints",
        r#"[{"values": {"messages": [{"type": "ai", "data": {"content": "So.", "id": "b"}}]}, "config": {"configurable":
{"thread_id": "t", "checkpoint_id": "2"}}, "parent_config": {"configurable": {"checkpoint_id": "1"}}},
{"values": {"messages": [{"type": "human", "data": {"content": "Why?", "id": "a"}}]}, "config": {"configurable":
{"thread_id": "t", "checkpoint_id": "1"}}, "parent_config": null}]"#,
    ),
    (
        "vercel-uimessages",
        r#"{"id": "t", "messages": [{"id": "a", "role": "user", "parts": [{"type": "text", "text": "Add."}]}, {"id": "b",
"role": "assistant", "parts": [{"type": "step-start"}, {"type": "tool-add", "toolCallId": "c", "state": "output-available",
"input": {}, "output": 3}, {"type": "step-start"}, {"type": "text", "text": "3."}]}]}"#,
    ),
];
