"""One retry layer: with the SDK's default of two retries, the gateway's limit still holds."""

import openai
import pytest
import wire

# Below the three sends that the SDK makes by itself.
LIMIT = 2


def ask(run, messages, **more):
    return run.client.chat.completions.create(model="chat", messages=messages, **more)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (wire.failure(500, "boom"), 502),
        (wire.failure(503, "busy"), 503),
        (wire.failure(429, "slow down", kind="rate_limit_error", code="rate_limit_exceeded"), 429),
    ],
    ids=["500", "503", "429"],
)
def test_a_vendor_that_keeps_failing_is_sent_no_more_than_the_limit(
    start, messages, reply, status, stream
):
    run = start([reply], max_attempts=LIMIT)
    assert run.client.max_retries == 2, "the SDK's default has changed"
    with pytest.raises(openai.APIStatusError) as caught:
        list(ask(run, messages, stream=stream))
    assert caught.value.status_code == status
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert 1 <= len(run.vendor.requests) <= LIMIT


def test_a_vendor_that_resets_is_sent_an_ambiguous_request_once_more_at_most(start, messages):
    run = start([wire.reset()], max_attempts=4)
    with pytest.raises(openai.InternalServerError) as caught:
        ask(run, messages)
    assert caught.value.status_code == 502
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(run.vendor.requests) == 2


def test_a_vendor_that_is_not_there_is_a_502_and_the_sdk_does_not_ask_again(start, messages):
    run = start([wire.answer()], max_attempts=LIMIT)
    run.vendor.stop()
    run.vendor.stop = lambda: None
    with pytest.raises(openai.InternalServerError) as caught:
        ask(run, messages)
    assert caught.value.status_code == 502
    assert caught.value.body["whippletree"]["class"] == "transport"
    assert len(caught.value.body["whippletree"]["attempts"]) <= LIMIT
    rows = run.gateway.read("/admin/v1/requests")["requests"]
    assert len(rows) == 1, "the SDK sent its request again"


def test_a_vendor_that_recovers_is_served_within_one_call_of_the_sdk(start, messages):
    run = start([wire.failure(500, "boom"), wire.failure(503, "busy"), wire.answer("ok")], max_attempts=3)
    answer = run.client.chat.completions.with_raw_response.create(model="chat", messages=messages)
    assert answer.parse().choices[0].message.content == "ok"
    assert answer.headers["x-wt-attempts"] == "3"
    assert len(run.vendor.requests) == 3
    assert len(run.gateway.read("/admin/v1/requests")["requests"]) == 1


def test_a_vendor_that_is_silent_is_given_up_in_time(start, messages):
    run = start(
        [wire.silence()],
        provider='timeouts = { first_byte = "200ms" }',
        retry='ambiguous = "never"',
    )
    with pytest.raises(openai.InternalServerError) as caught:
        ask(run, messages)
    assert caught.value.status_code == 504
    assert caught.value.body["whippletree"]["class"] == "timeout"
    assert len(run.vendor.requests) == 1


def test_a_wait_longer_than_the_route_bears_is_not_waited_for(start, messages):
    limited = wire.failure(
        429, "slow down", code="rate_limit_exceeded", headers={"retry-after": "50"}
    )
    run = start([limited], retry='max_wait = "1s"')
    with pytest.raises(openai.RateLimitError) as caught:
        ask(run, messages)
    assert len(run.vendor.requests) == 1
    assert 45 <= int(caught.value.response.headers["retry-after"]) <= 56
    assert caught.value.response.headers["x-should-retry"] == "false"
