"""Tools: an agent's loop of several turns, whole and streamed, and calls that never are half."""

import json

import openai
import pytest
import wire

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
BERN = wire.tool_call("call_1", "weather", {"city": "Bern"})
ROMA = wire.tool_call("call_2", "weather", {"city": "Roma, \"città\" \\ ünïcode"})


def collect(events):
    """Puts a streamed answer together, as an agent does."""
    text, calls = "", {}
    for event in events:
        if not event.choices:
            continue
        delta = event.choices[0].delta
        text += delta.content or ""
        for piece in delta.tool_calls or []:
            call = calls.setdefault(piece.index, {"arguments": ""})
            if piece.id:
                call["id"] = piece.id
            if piece.function.name:
                call["name"] = piece.function.name
            call["arguments"] += piece.function.arguments or ""
    return text, [calls[index] for index in sorted(calls)]


def run_agent(client, messages, *, stream):
    """Calls tools until the model answers in words."""
    messages = list(messages)
    for _ in range(10):
        answer = client.chat.completions.create(
            model="chat", messages=messages, tools=TOOLS, stream=stream
        )
        if stream:
            text, calls = collect(answer)
        else:
            message = answer.choices[0].message
            text = message.content
            calls = [
                {"id": c.id, "name": c.function.name, "arguments": c.function.arguments}
                for c in message.tool_calls or []
            ]
        if not calls:
            return text
        messages.append(
            {
                "role": "assistant",
                "content": text or None,
                "tool_calls": [
                    {
                        "id": call["id"],
                        "type": "function",
                        "function": {"name": call["name"], "arguments": call["arguments"]},
                    }
                    for call in calls
                ],
            }
        )
        for call in calls:
            city = json.loads(call["arguments"])["city"]
            messages.append(
                {"role": "tool", "tool_call_id": call["id"], "content": f"3 degrees in {city}"}
            )
    raise AssertionError("the agent never came to an end")


def messages_text(request):
    """The prompt exactly as it stands in the body."""
    start = request.text.index('"messages":') + len('"messages":')
    _, end = json.JSONDecoder().raw_decode(request.text, start)
    return request.text[start:end]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_agent_of_several_turns_comes_to_its_answer(start, messages, stream):
    if stream:
        replies = [wire.tool_stream([BERN]), wire.tool_stream([ROMA, BERN]), wire.stream(["done"])]
    else:
        replies = [
            wire.answer(None, tool_calls=[BERN]),
            wire.answer(None, tool_calls=[ROMA, BERN]),
            wire.answer("done"),
        ]
    run = start(replies)
    assert run_agent(run.client, messages, stream=stream) == "done"
    requests = run.vendor.requests
    assert len(requests) == 3
    last = requests[-1].body["messages"]
    assert [message["role"] for message in last] == (
        ["system", "user", "assistant", "tool", "assistant", "tool", "tool"]
    )
    assert last[4]["tool_calls"] == [ROMA, BERN]
    # Each turn's prompt is a byte-exact prefix of the next one's, or the vendor's cache is lost.
    for before, after in zip(requests, requests[1:]):
        assert messages_text(after).startswith(messages_text(before).removesuffix("]"))


def test_an_agent_survives_a_vendor_that_fails_between_its_turns(start, messages):
    run = start(
        [
            wire.failure(500, "internal"),
            wire.tool_stream([BERN]),
            wire.reset(),
            wire.tool_stream([ROMA]),
            wire.failure(503, "overloaded"),
            wire.stream(["done"]),
        ],
        client={"max_retries": 0},
    )
    assert run_agent(run.client, messages, stream=True) == "done"
    assert len(run.vendor.requests) == 6


def test_no_half_tool_call_is_shown_where_calls_are_held(start, messages):
    broken = wire.tool_stream([BERN])
    broken["writes"] = broken["writes"][:4]
    broken["end"] = "cut"
    run = start([broken], route='commit = "tool_calls"', max_attempts=1)
    shown = []
    with pytest.raises(openai.APIError):
        for event in run.client.chat.completions.create(
            model="chat", messages=messages, tools=TOOLS, stream=True
        ):
            shown.append(event)
    assert collect(shown)[1] == []


def test_a_held_tool_call_is_retried_from_the_start(start, messages):
    broken = wire.tool_stream([BERN])
    broken["writes"] = broken["writes"][:4]
    broken["end"] = "cut"
    run = start([broken, wire.tool_stream([ROMA])], route='commit = "tool_calls"')
    stream = run.client.chat.completions.create(
        model="chat", messages=messages, tools=TOOLS, stream=True
    )
    (call,) = collect(stream)[1]
    assert json.loads(call["arguments"]) == json.loads(ROMA["function"]["arguments"])
