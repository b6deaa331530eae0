"""Anthropic's own SDK: its dialect on both sides of the gateway."""

import json
import types

import harness
import pytest
import wire

anthropic = pytest.importorskip("anthropic", reason="comes with the newest clients only")

CLAUDE = """
[providers.claude]
kind = "anthropic"
base_url = "http://{vendor}/v1"
keys = [{{ env = "VENDOR_KEY" }}]

[routes.claude]
targets = ["claude/big"]

[routes.claude.retry]
max_attempts = {max_attempts}
base = "10ms"
cap = "20ms"
"""

# Below the three sends that the SDK makes by itself.
LIMIT = 2

HELLO = [{"role": "user", "content": "Say ok."}]
TOOL = {
    "name": "weather",
    "description": "The weather of a place.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
}


@pytest.fixture
def begin(tmp_path):
    running = []

    def begin(replies, **client):
        vendor = harness.Vendor(replies)
        running.append(vendor)
        rest = CLAUDE.format(vendor=vendor.address, max_attempts=LIMIT)
        gateway = harness.Gateway(tmp_path, vendor, rest=rest)
        running.append(gateway)
        settings = {"api_key": "sk-client-secret", "timeout": 20.0, **client}
        base_url = gateway.base_url.removesuffix("/v1")
        return types.SimpleNamespace(
            vendor=vendor,
            gateway=gateway,
            client=anthropic.Anthropic(base_url=base_url, **settings),
        )

    yield begin
    for thing in reversed(running):
        thing.stop()
    log = (tmp_path / "gateway.log").read_text()
    assert harness.VENDOR_KEY not in log, "a vendor's key is in the log"
    assert "panicked" not in log, log


def usage(**more):
    return {"input_tokens": 12, "output_tokens": 5, **more}


def message(content, stop="end_turn"):
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "big",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage(cache_read_input_tokens=100, cache_creation_input_tokens=0),
    }
    return {"status": 200, "headers": {**wire.JSON, "request-id": "req_vendor"}, "body": body}


def failure(status, kind, words, **headers):
    body = {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}
    return {"status": status, "headers": {**wire.JSON, **headers}, "body": body}


def event(data):
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


def stream(*events):
    return {"status": 200, "headers": wire.EVENTS, "writes": [event(data) for data in events]}


def opening():
    start = message([])["body"] | {"stop_reason": None, "usage": usage(output_tokens=1)}
    return {"type": "message_start", "message": start}


def block(index, content):
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index, **parts):
    return {"type": "content_block_delta", "index": index, "delta": parts}


def closing(stop="end_turn", output=5):
    return (
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": output},
        },
        {"type": "message_stop"},
    )


def ask(run, **more):
    settings = {"model": "claude", "max_tokens": 64, "messages": HELLO, **more}
    return run.client.messages.create(**settings)


def test_a_message_with_its_usage_and_on_record(begin):
    run = begin([message([{"type": "text", "text": "ok"}])])
    answer = ask(run, system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}])
    assert answer.content[0].text == "ok"
    assert answer.usage.cache_read_input_tokens == 100
    (sent,) = run.vendor.requests
    assert sent.target.split("?")[0] == "/v1/messages"
    assert sent.headers["x-api-key"] == harness.VENDOR_KEY
    assert "authorization" not in sent.headers
    assert sent.headers["anthropic-version"]
    assert sent.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    (row,) = run.gateway.read("/admin/v1/requests")["requests"]
    assert row["usage"]["input_tokens"] == 112
    # The gateway's own id, not the vendor's: it leads to the record.
    assert answer._request_id == row["request_id"]


def test_tokens_are_counted(begin):
    run = begin([{"status": 200, "headers": wire.JSON, "body": {"input_tokens": 14}}])
    counted = run.client.messages.count_tokens(model="claude", messages=HELLO)
    assert counted.input_tokens == 14


def test_a_stream_of_text_and_thinking(begin):
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    reply = stream(
        opening(),
        {"type": "ping"},
        block(0, thinking),
        delta(0, type="thinking_delta", thinking="Hm."),
        delta(0, type="signature_delta", signature="c2ln"),
        {"type": "content_block_stop", "index": 0},
        block(1, {"type": "text", "text": ""}),
        delta(1, type="text_delta", text="o"),
        delta(1, type="text_delta", text="k"),
        {"type": "content_block_stop", "index": 1},
        *closing(),
    )
    run = begin([reply])
    with run.client.messages.stream(model="claude", max_tokens=64, messages=HELLO) as answer:
        said = "".join(answer.text_stream)
        final = answer.get_final_message()
    assert said == "ok"
    assert final.content[0].signature == "c2ln"
    assert final.usage.output_tokens == 5
    assert final.stop_reason == "end_turn"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_loop_of_five_turns_with_tools(begin, streamed):
    places = ["Oslo", "Rome", "Bern", "Wien"]

    def call(place, number):
        tool = {"type": "tool_use", "id": f"toolu_{number}", "name": "weather"}
        if not streamed:
            return message([{**tool, "input": {"place": place}}], stop="tool_use")
        written = json.dumps({"place": place})
        return stream(
            opening(),
            block(0, {**tool, "input": {}}),
            *(delta(0, type="input_json_delta", partial_json=part) for part in ("", written[:7], written[7:])),
            {"type": "content_block_stop", "index": 0},
            *closing("tool_use"),
        )

    end = message([{"type": "text", "text": "done"}])
    if streamed:
        text = block(0, {"type": "text", "text": ""})
        end = stream(opening(), text, delta(0, type="text_delta", text="done"), *closing())
    run = begin([*(call(place, n) for n, place in enumerate(places)), end])
    conversation, asked = list(HELLO), []
    for _ in range(5):
        settings = {"model": "claude", "max_tokens": 64, "messages": conversation, "tools": [TOOL]}
        if streamed:
            with run.client.messages.stream(**settings) as answer:
                answer = answer.get_final_message()
        else:
            answer = run.client.messages.create(**settings)
        if answer.stop_reason != "tool_use":
            break
        (tool,) = answer.content
        asked.append(tool.input["place"])
        result = {"type": "tool_result", "tool_use_id": tool.id, "content": "12 degrees"}
        conversation += [
            {"role": "assistant", "content": [tool.model_dump(include={"type", "id", "name", "input"})]},
            {"role": "user", "content": [result]},
        ]
    assert asked == places
    assert answer.content[0].text == "done"
    assert len(run.vendor.requests) == 5
    assert len({row["task"] for row in run.gateway.read("/admin/v1/requests")["requests"]}) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("reply", "error", "status"),
    [
        (failure(529, "overloaded_error", "Overloaded"), "api_error", 529),
        (failure(500, "api_error", "Internal"), "api_error", 502),
        (failure(429, "rate_limit_error", "slow down"), "rate_limit_error", 429),
    ],
    ids=["529", "500", "429"],
)
def test_a_vendor_that_keeps_failing_is_sent_no_more_than_the_limit(
    begin, reply, error, status, streamed
):
    run = begin([reply])
    assert run.client.max_retries == 2, "the SDK's default has changed"
    with pytest.raises(anthropic.APIStatusError) as caught:
        list(ask(run, stream=streamed))
    assert caught.value.status_code == status
    assert caught.value.body["error"]["type"] == error
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert 1 <= len(run.vendor.requests) <= LIMIT
    assert len(run.gateway.read("/admin/v1/requests")["requests"]) == 1


def test_a_stream_that_is_overloaded_before_its_first_word_is_tried_again(begin):
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    text = block(0, {"type": "text", "text": ""})
    whole = stream(opening(), text, delta(0, type="text_delta", text="ok"), *closing())
    run = begin([stream(opening(), {"type": "ping"}, overloaded), whole])
    with run.client.messages.stream(model="claude", max_tokens=64, messages=HELLO) as answer:
        assert answer.get_final_text() == "ok"
    assert len(run.vendor.requests) == 2


def test_a_stream_that_breaks_is_an_error_and_no_answer(begin):
    text = block(0, {"type": "text", "text": ""})
    run = begin([stream(opening(), text, delta(0, type="text_delta", text="o"))])
    with pytest.raises(anthropic.APIStatusError) as caught:
        for _ in ask(run, stream=True):
            pass
    assert "ended before the answer" in str(caught.value)


def test_a_refusal_of_the_vendor_keeps_its_words(begin):
    words = "prompt is too long: 210000 tokens > 200000 maximum"
    run = begin([failure(400, "invalid_request_error", words)])
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(run)
    assert caught.value.body["error"]["message"] == words
    assert len(run.vendor.requests) == 1


def test_an_unknown_model_is_not_found(begin):
    run = begin([message([])])
    with pytest.raises(anthropic.NotFoundError) as caught:
        ask(run, model="claud")
    assert '"claude"' in caught.value.body["error"]["message"]
    assert not run.vendor.requests


def test_models_are_listed(begin):
    run = begin([])
    assert "claude" in [model.id for model in run.client.models.list()]
    assert run.client.models.retrieve("claude").display_name == "claude"


def test_a_client_that_waits_no_longer_than_it_said(begin):
    slow = message([{"type": "text", "text": "late"}])
    slow = {"sleep_ms": 3_000, **slow}
    run = begin([slow], timeout=0.5, max_retries=0)
    with pytest.raises(anthropic.APITimeoutError):
        ask(run)
