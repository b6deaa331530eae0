"""Streams: text, usage asked for and not asked for, interruption, cancellation, silence."""

import harness
import openai
import pytest
import wire


def test_a_streams_text_arrives_in_order(start, messages):
    run = start([wire.stream(["one ", "two ", "three"])])
    events = list(run.client.chat.completions.create(model="chat", messages=messages, stream=True))
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text == "one two three"
    assert events[-1].choices[0].finish_reason == "stop"


def test_a_client_that_did_not_ask_for_usage_sees_no_chunk_without_choices(start, messages):
    run = start([wire.stream()])
    events = list(run.client.chat.completions.create(model="chat", messages=messages, stream=True))
    assert all(event.choices for event in events)
    assert all(event.usage is None for event in events)
    (request,) = run.vendor.requests
    assert request.body["stream_options"] == {"include_usage": True}


def test_a_client_that_asked_for_usage_gets_it_once_and_last(start, messages):
    run = start([wire.stream(tokens=wire.usage(30, 2, cached=10))])
    events = list(
        run.client.chat.completions.create(
            model="chat", messages=messages, stream=True, stream_options={"include_usage": True}
        )
    )
    assert [event for event in events if event.usage] == [events[-1]]
    assert events[-1].choices == []
    assert events[-1].usage.prompt_tokens == 30
    assert events[-1].usage.prompt_tokens_details.cached_tokens == 10


def test_a_streams_usage_is_on_the_record_though_the_client_did_not_ask(start, messages):
    run = start([wire.stream(tokens=wire.usage(30, 2))])
    list(run.client.chat.completions.create(model="chat", messages=messages, stream=True))
    rows = harness.until(lambda: run.gateway.read("/admin/v1/requests")["requests"])
    assert rows[0]["stream"] is True
    assert rows[0]["usage"]["input_tokens"] == 30
    assert rows[0]["usage"]["output_tokens"] == 2


def test_the_sdks_stream_helper_collects_the_answer(start, messages):
    run = start([wire.stream(["o", "k"])])
    with run.client.chat.completions.stream(model="chat", messages=messages) as stream:
        stream.until_done()
        assert stream.get_final_completion().choices[0].message.content == "ok"


def test_a_stream_cut_before_the_first_text_is_tried_again_unseen(start, messages):
    run = start([wire.stream([], done=False, end="cut"), wire.stream(["o", "k"])])
    events = list(run.client.chat.completions.create(model="chat", messages=messages, stream=True))
    text = "".join(event.choices[0].delta.content or "" for event in events)
    assert text == "ok"
    assert len(run.vendor.requests) == 2
    roles = [event for event in events if event.choices[0].delta.role]
    assert len(roles) == 1, "the broken stream's opening was shown"


@pytest.mark.parametrize("end", ["cut", "reset", "clean"])
def test_a_stream_that_ends_without_its_terminator_is_an_error_not_an_answer(start, messages, end):
    run = start([wire.stream(["one "], done=False, end=end, pause_ms=20)])
    stream = run.client.chat.completions.create(model="chat", messages=messages, stream=True)
    seen = []
    with pytest.raises(openai.APIError) as caught:
        for event in stream:
            seen.append(event)
    assert "".join(event.choices[0].delta.content or "" for event in seen) == "one "
    assert all(event.choices[0].finish_reason is None for event in seen)
    assert caught.value.code == "stream_interrupted"
    assert len(run.vendor.requests) == 1, "a stream was replayed after its text was shown"


def test_a_client_that_leaves_a_stream_cancels_the_vendors_work(start, messages):
    endless = wire.stream(["one "], done=False, end="hang")
    run = start([endless])
    stream = run.client.chat.completions.create(model="chat", messages=messages, stream=True)
    for event in stream:
        if event.choices[0].delta.content:
            break
    assert not run.vendor.requests[0].disconnected
    stream.close()
    harness.until(lambda: run.vendor.requests[0].disconnected)


def test_a_client_that_gives_up_before_the_first_byte_cancels_the_vendors_work(start, messages):
    run = start([wire.silence()], client={"timeout": 0.5, "max_retries": 0})
    with pytest.raises(openai.APITimeoutError):
        run.client.chat.completions.create(model="chat", messages=messages)
    harness.until(lambda: run.vendor.requests[0].disconnected)
    assert len(run.vendor.requests) == 1


def test_silence_in_a_stream_is_bridged_with_what_the_sdk_bears(start, messages):
    slow = wire.stream(["one "], done=False)
    slow["writes"] += [{"sleep_ms": 700}, wire.chunk({"content": "two"})]
    slow["writes"] += wire.stream([])["writes"][1:]
    run = start([slow], route='keepalive = "100ms"', client={"timeout": 0.4, "max_retries": 0})
    events = list(run.client.chat.completions.create(model="chat", messages=messages, stream=True))
    text = "".join(event.choices[0].delta.content or "" for event in events)
    assert text == "one two"
