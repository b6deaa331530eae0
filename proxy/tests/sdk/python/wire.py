"""Answers as a vendor with OpenAI's dialect writes them, for the scripted vendor to play."""

import base64
import json
import struct

MODEL = "gpt-test"
JSON = {"content-type": "application/json", "x-request-id": "req_vendor"}
EVENTS = {"content-type": "text/event-stream"}


def usage(prompt=12, completion=5, cached=0):
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def answer(content="ok", *, tool_calls=None, tokens=None, finish=None):
    """A whole chat completion."""
    message = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish or ("tool_calls" if tool_calls else "stop"),
    }
    return {
        "status": 200,
        "headers": JSON,
        "body": {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [choice],
            "usage": tokens or usage(),
        },
    }


def tool_call(identity, name, arguments):
    return {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def chunk(delta=None, *, finish=None, tokens=None):
    """One event of a chat stream; with `tokens` it is the usage chunk, which has no choices."""
    choices = [] if tokens else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": MODEL,
        "choices": choices,
    }
    if tokens:
        body["usage"] = tokens
    return "data: " + json.dumps(body) + "\n\n"


def stream(texts=("o", "k"), *, tokens=None, end="clean", done=True, pause_ms=0):
    """A chat stream: role, one delta per text, the reason, usage, and the terminator."""
    writes = [chunk({"role": "assistant", "content": ""})]
    for text in texts:
        writes.append(chunk({"content": text}))
        if pause_ms:
            writes.append({"sleep_ms": pause_ms})
    if done:
        writes += [chunk(finish="stop"), chunk(tokens=tokens or usage()), "data: [DONE]\n\n"]
    return {"status": 200, "headers": EVENTS, "writes": writes, "end": end}


def tool_stream(calls):
    """A chat stream that calls tools, each call's arguments cut into pieces of three characters."""
    writes = [chunk({"role": "assistant", "content": None})]
    for index, call in enumerate(calls):
        function = call["function"]
        head = dict(call, index=index, function={"name": function["name"], "arguments": ""})
        writes.append(chunk({"tool_calls": [head]}))
        text = function["arguments"]
        for at in range(0, len(text), 3):
            piece = {"index": index, "function": {"arguments": text[at : at + 3]}}
            writes.append(chunk({"tool_calls": [piece]}))
    writes += [chunk(finish="tool_calls"), chunk(tokens=usage()), "data: [DONE]\n\n"]
    return {"status": 200, "headers": EVENTS, "writes": writes}


def failure(status, message, *, kind="server_error", code=None, param=None, headers=None):
    """An error in OpenAI's shape."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return {"status": status, "headers": {**JSON, **(headers or {})}, "body": body}


def reset():
    """No answer: the connection is reset when the request has come."""
    return {"status": 0, "end": "reset"}


def silence():
    """No answer, and the connection stays open."""
    return {"status": 0, "end": "hang"}


def json_reply(body, status=200):
    return {"status": status, "headers": JSON, "body": body}


def embeddings(vectors, *, encoded):
    """An embeddings answer, as base64 of little-endian floats when the client asked for that."""

    def value(vector):
        if not encoded:
            return vector
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

    rows = [
        {"object": "embedding", "index": index, "embedding": value(vector)}
        for index, vector in enumerate(vectors)
    ]
    return json_reply(
        {
            "object": "list",
            "data": rows,
            "model": "embed-test",
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }
    )


def response(text="ok"):
    """A whole answer of the Responses API."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": MODEL,
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 17,
        },
    }


def response_stream(texts):
    """The events of a streamed Responses answer."""
    whole = response("".join(texts))
    opened = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [("response.created", {"response": opened})]
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    for text in texts:
        events.append(("response.output_text.delta", {**place, "delta": text, "logprobs": []}))
    events.append(("response.completed", {"response": whole}))
    writes = [
        f"event: {name}\ndata: {json.dumps({'type': name, 'sequence_number': n, **body})}\n\n"
        for n, (name, body) in enumerate(events)
    ]
    return {"status": 200, "headers": EVENTS, "writes": writes}
