"""Whole answers: chat, structured output, embeddings, and what the vendor was sent."""

import json

import harness
import openai
import pydantic
import wire


def test_a_whole_answer_arrives_with_its_usage(start, messages):
    run = start([wire.answer("ok", tokens=wire.usage(100, 7, cached=64))])
    answer = run.client.chat.completions.create(model="chat", messages=messages)
    assert answer.choices[0].message.content == "ok"
    assert answer.usage.prompt_tokens == 100
    assert answer.usage.prompt_tokens_details.cached_tokens == 64


def test_the_answer_says_who_served_it_and_what_it_cost(start, messages):
    run = start([wire.answer("ok", tokens=wire.usage(100, 7))])
    answer = run.client.chat.completions.with_raw_response.create(model="chat", messages=messages)
    assert answer.headers["x-wt-target"] == "vendor/gpt-test"
    assert answer.headers["x-wt-attempts"] == "1"
    assert answer.headers["x-request-id"] == answer.headers["x-wt-request-id"]
    # 100 tokens at $1 a million and 7 at $2.
    assert float(answer.headers["x-wt-cost-usd"]) == 0.000114
    identity = answer.headers["x-wt-request-id"]
    exchange = harness.until(
        lambda: [
            row
            for row in run.gateway.read("/admin/v1/requests")["requests"]
            if row["request_id"] == identity
        ]
    )[0]
    assert exchange["target"] == "vendor/gpt-test"
    assert exchange["usage"]["input_tokens"] == 100
    assert exchange["usage"]["output_tokens"] == 7


def test_the_vendor_gets_its_own_key_and_not_the_clients(start, messages):
    run = start([wire.answer()])
    run.client.chat.completions.create(
        model="chat", messages=messages, extra_headers={"x-wt-task": "run-7"}
    )
    (request,) = run.vendor.requests
    assert request.headers["authorization"] == f"Bearer {harness.VENDOR_KEY}"
    # The gateway's own word to another gateway is the one exception.
    ours = [name for name in request.headers if name.startswith("x-wt-")]
    assert set(ours) <= {"x-wt-attempt-owner"}
    assert "sk-client-secret" not in json.dumps(request.headers)


def test_unknown_fields_reach_the_vendor_as_they_came(start, messages):
    run = start([wire.answer()])
    extra = {"vendor_extension": {"z": 1, "a": [1.0, 1e3]}, "seed": 7}
    run.client.chat.completions.create(model="chat", messages=messages, extra_body=extra)
    (request,) = run.vendor.requests
    assert request.target == "/v1/chat/completions"
    assert request.body == {"model": "gpt-test", "messages": messages, **extra}
    assert '"vendor_extension":{"z":1,"a":[1.0,1000.0]}' in request.text.replace(" ", "")


def test_a_direct_name_needs_no_route(start, messages):
    run = start([wire.answer("ok")])
    run.client.chat.completions.create(model="vendor/some-model", messages=messages)
    (request,) = run.vendor.requests
    assert request.body["model"] == "some-model"


class Weather(pydantic.BaseModel):
    city: str
    celsius: int


def test_structured_output_is_parsed_by_the_sdk(start, messages):
    run = start([wire.answer('{"city":"Bern","celsius":3}')])
    answer = run.client.chat.completions.parse(
        model="chat", messages=messages, response_format=Weather
    )
    assert answer.choices[0].message.parsed == Weather(city="Bern", celsius=3)
    (request,) = run.vendor.requests
    assert request.body["response_format"]["type"] == "json_schema"
    assert request.body["response_format"]["json_schema"]["strict"] is True


def test_embeddings_come_back_as_floats_though_the_sdk_asks_for_base64(start):
    run = start([wire.embeddings([[0.5, -1.0], [0.25, 2.0]], encoded=True)])
    answer = run.client.embeddings.create(model="vendor/embed-test", input=["a", "b"])
    assert [row.embedding for row in answer.data] == [[0.5, -1.0], [0.25, 2.0]]
    (request,) = run.vendor.requests
    assert request.target == "/v1/embeddings"
    assert request.body["encoding_format"] == "base64"
    assert request.body["model"] == "embed-test"


def test_many_requests_over_one_client_each_get_their_own_answer(start, messages):
    run = start([wire.answer("answer {n}")])
    seen = set()
    for _ in range(20):
        answer = run.client.chat.completions.create(model="chat", messages=messages)
        seen.add(answer.choices[0].message.content)
    assert len(seen) == 20


def test_an_async_client_is_served_in_parallel(start, messages):
    import asyncio

    run = start([wire.answer("ok") | {"sleep_ms": 50}])

    async def ask():
        async with openai.AsyncOpenAI(
            base_url=run.gateway.base_url, api_key="any", timeout=20.0
        ) as client:
            calls = [
                client.chat.completions.create(model="chat", messages=messages) for _ in range(16)
            ]
            return await asyncio.gather(*calls)

    answers = asyncio.run(ask())
    assert [answer.choices[0].message.content for answer in answers] == ["ok"] * 16
    assert len(run.vendor.requests) == 16


def test_embeddings_of_token_numbers_pass_as_they_came(start):
    run = start([wire.embeddings([[0.5, -1.0]], encoded=True)])
    run.client.embeddings.create(model="vendor/embed-test", input=[[9906, 1917]])
    assert run.vendor.requests[0].body["input"] == [[9906, 1917]]
