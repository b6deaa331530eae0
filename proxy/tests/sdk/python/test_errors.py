"""Errors: each reaches the program as the SDK's own class, with a message that says what to do."""

import hashlib
import json

import openai
import pytest
import wire

KEY = "sk-team-secret-0123456789abcdef"
TENANT = f"""
[tenants.acme]
keys = [{{ name = "ci", sha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}" }}]
"""


def ask(run, messages, **more):
    return run.client.chat.completions.create(**{"model": "chat", "messages": messages, **more})


def test_a_key_that_is_not_known_is_an_authentication_error(start, messages):
    run = start([wire.answer()], rest=TENANT, client={"api_key": "sk-not-known-0123456789abcdef"})
    with pytest.raises(openai.AuthenticationError) as caught:
        ask(run, messages)
    assert caught.value.status_code == 401
    assert "sk-not-known-0123456789abcdef" not in str(caught.value)
    assert run.vendor.requests == []


def test_a_key_that_is_known_is_served_and_booked_on_its_tenant(start, messages):
    run = start([wire.answer()], rest=TENANT, client={"api_key": KEY})
    ask(run, messages)
    (row,) = run.gateway.read("/admin/v1/requests")["requests"]
    assert (row["tenant"], row["key"]) == ("acme", "ci")
    assert KEY not in json.dumps(run.vendor.requests[0].headers)


def test_a_misspelt_model_is_not_found_and_the_nearest_name_is_told(start, messages):
    run = start([wire.answer()])
    with pytest.raises(openai.NotFoundError) as caught:
        ask(run, messages, model="chta")
    assert caught.value.code == "model_not_found"
    assert '"chat"' in caught.value.message or "`chat`" in caught.value.message
    assert run.vendor.requests == []


def test_the_vendors_complaint_about_a_request_is_passed_on(start, messages):
    complaint = "Unsupported value: 'temperature' must be between 0 and 2."
    run = start(
        [wire.failure(400, complaint, kind="invalid_request_error", param="temperature")]
    )
    with pytest.raises(openai.BadRequestError) as caught:
        ask(run, messages, temperature=9)
    assert complaint in caught.value.message
    assert caught.value.param == "temperature"
    assert len(run.vendor.requests) == 1, "a request that is wrong was sent again"


def test_a_prompt_that_is_too_long_keeps_the_code_that_harnesses_act_on(start, messages):
    text = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
    run = start(
        [
            wire.failure(
                400, text, kind="invalid_request_error", code="context_length_exceeded"
            )
        ]
    )
    with pytest.raises(openai.BadRequestError) as caught:
        ask(run, messages)
    assert caught.value.code == "context_length_exceeded"
    assert "maximum context length" in caught.value.message
    assert len(run.vendor.requests) == 1


def test_a_body_over_the_limit_is_refused_before_it_reaches_a_vendor(start):
    run = start([wire.answer()], server='max_body = "64KiB"')
    with pytest.raises(openai.APIStatusError) as caught:
        ask(run, [{"role": "user", "content": "x" * 100_000}])
    assert caught.value.status_code == 413
    assert run.vendor.requests == []


def test_a_vendor_out_of_quota_is_not_asked_again(start, messages):
    text = "You exceeded your current quota, please check your plan and billing details."
    run = start([wire.failure(429, text, kind="insufficient_quota", code="insufficient_quota")])
    with pytest.raises(openai.RateLimitError) as caught:
        ask(run, messages)
    assert caught.value.code == "insufficient_quota"
    assert len(run.vendor.requests) == 1


def test_the_gateways_own_key_refused_by_the_vendor_is_never_the_clients_fault(start, messages):
    run = start([wire.failure(401, "Incorrect API key provided", code="invalid_api_key")])
    with pytest.raises(openai.InternalServerError) as caught:
        ask(run, messages)
    assert caught.value.status_code == 502
    assert caught.value.body["whippletree"]["class"] == "vendor_auth"


def test_an_error_names_its_attempts(start, messages):
    run = start([wire.failure(500, "boom"), wire.failure(503, "busy"), wire.reset()])
    with pytest.raises(openai.InternalServerError) as caught:
        ask(run, messages)
    told = caught.value.body["whippletree"]
    assert [attempt["status"] for attempt in told["attempts"]][:2] == [500, 503]
    assert {attempt["target"] for attempt in told["attempts"]} == {"vendor/gpt-test"}
    assert told["request_id"] == caught.value.response.headers["x-wt-request-id"]


def test_an_empty_model_is_told_from_a_missing_one(start, messages):
    run = start([wire.answer()])
    with pytest.raises(openai.APIStatusError) as caught:
        ask(run, messages, model="")
    assert caught.value.status_code in (400, 404)
    assert run.vendor.requests == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"chat","messages":[{"role":"user","content":"a"}],"model":"other"}',
        b'{"model":"chat","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"chat","messages":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"model":"chat","messages":[',
    ],
    ids=["duplicate key", "invalid utf-8", "too deep", "cut"],
)
def test_a_body_that_two_readers_might_read_differently_is_refused(start, body):
    run = start([wire.answer()])
    answer = run.client._client.post(
        "/chat/completions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert run.vendor.requests == []
