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
    (
        "openai-responses",
        r#"{"id": "t", "request": {"model": "m", "instructions": "i", "input": [{"role": "user", "content": "Add."},
{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}, {"type": "function_call", "id": "fc_1",
"call_id": "c", "name": "add", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "3"}]},
"status": 200, "response": {"object": "response", "output": [{"type": "message", "role": "assistant", "id": "msg_1",
"content": [{"type": "output_text", "text": "3", "annotations": []}]}], "usage": {"input_tokens": 3}}}"#,
    ),
    (
        "mistral-chat",
        r#"{"model": "m", "messages": [{"role": "user", "content":
[{"type": "document_url", "document_url": "https://example.org/a.pdf"}]}, {"role": "assistant", "prefix": false,
"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "A."}],
"tool_calls": []}]}"#,
    ),
    (
        "codex-rollout",
        r#"{"timestamp":"2026-01-02T03:04:05.000Z","type":"session_meta","payload":{"id":"t","cwd":"/w"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}}
{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":3}}}}
{"type":"response_item","payload":{"type":"reasoning","summary":[],"content":null,"encrypted_content":"x"}}
{"type":"response_item","payload":{"type":"function_call","name":"ls","arguments":"{}","call_id":"c"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"a"}}
{"type":"compacted","payload":{"message":"All of it."}}
"#,
    ),
    (
        "codex-exec-stream",
        r#"{"type":"thread.started","thread_id":"t"}
{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls","status":"in_progress"}}
{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","aggregated_output":"a","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"One file."}}
{"type":"turn.completed","usage":{"input_tokens":3,"cached_input_tokens":1,"output_tokens":2}}
"#,
    ),
    (
        "agent-framework",
        r#"{"id": "t", "config": {"assistant": {"model": "m"}}, "messages": [{"role": {"value": "assistant"}, "contents":
[{"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}", "exception": null}]}, {"role": {"value":
"tool"}, "contents": [{"type": "function_result", "call_id": "c", "result": {"sum": 3}, "exception": null}]}]}"#,
    ),
    (
        "inspect-log",
        r#"{"eval": {"task": "t"}, "samples": [{"id": 1, "epoch": 1, "messages": [{"role": "user", "content":
"attachment://00112233445566778899aabbccddeeff"}, {"id": "a", "role": "assistant", "content": "", "model": "m",
"tool_calls": [{"id": "c", "function": "add", "arguments": {}}]}, {"role": "tool", "tool_call_id": "c", "function":
"add", "content": "3"}], "events": [{"event": "model", "timestamp": "2026-01-02T03:04:05Z", "output": {"choices":
[{"message": {"id": "a"}}], "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}}}], "attachments":
{"00112233445566778899aabbccddeeff": "Add."}}]}"#,
    ),
    (
        "mini-swe-traj",
        r#"{"info": {"model_stats": {"api_calls": 1}}, "messages": [{"role": "user", "content": "Go."}, {"role": "assistant",
"content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}], "extra":
{"timestamp": 1.5, "response": {"model": "m", "choices": [], "usage": {"prompt_tokens": 3}}}}, {"role": "exit",
"content": "done", "extra": {"exit_status": "Submitted"}}], "trajectory_format": "mini-swe-agent-1.1"}"#,
    ),
    (
        "sweagent-traj",
        r#"{"history": [{"role": "system", "content": "s", "agent": "main"}, {"role": "user", "content": "Go.", "agent":
"main"}, {"role": "assistant", "content": "", "agent": "main", "thought": "", "action": "ls", "tool_calls": [{"id": "c",
"type": "function", "function": {"name": "ls", "arguments": "{}"}}]}, {"role": "tool", "content": "a", "agent": "main",
"tool_call_ids": ["c"]}], "trajectory": [{"action": "ls"}], "info": {"exit_status": "submitted"}}"#,
    ),
    (
        "sharegpt",
        r#"[{"conversations": [{"from": "human", "value": "Add."}, {"from": "function_call", "value":
"{\"name\": \"add\", \"arguments\": {\"a\": 1}}"}, {"from": "observation", "value": "3"}], "tools": "[]", "chosen":
{"from": "gpt", "value": "3"}, "rejected": {"from": "gpt", "value": "4"}}]"#,
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
