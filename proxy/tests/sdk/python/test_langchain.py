"""LangChain as a client: it brings its own message types, its own streaming and tool binding."""

import asyncio
import hashlib
import json

import harness
import openai
import pydantic
import pytest
import wire

langchain_openai = pytest.importorskip("langchain_openai")

KEY = "sk-team-secret-0123456789abcdef"
TENANT = f"""
[tenants.acme]
keys = [{{ name = "ci", sha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}" }}]
"""
EMBED = """
[routes.embed]
targets = ["vendor/embed-test"]
retry = { max_attempts = 2, base = "10ms", cap = "20ms" }
"""
BERN = wire.tool_call("call_1", "weather", {"city": "Bern"})
ROMA = wire.tool_call("call_2", "weather", {"city": 'Roma, "città"'})


@pytest.fixture
def chat(start):
    """chat(replies, …) -> as `start` gives it, with a chat model; `model` holds its settings."""

    def begin(replies, *, model=None, **parts):
        run = start(replies, **parts)
        settings = {"model": "chat", "api_key": "any", "timeout": 20, **(model or {})}
        run.model = langchain_openai.ChatOpenAI(base_url=run.gateway.base_url, **settings)
        return run

    return begin


@pytest.fixture
def embedder(start):
    def begin(replies, *, model=None, **parts):
        run = start(replies, **parts)
        settings = {"model": "vendor/embed-test", "api_key": "any", **(model or {})}
        # Cutting long texts needs a vocabulary from the network.
        run.model = langchain_openai.OpenAIEmbeddings(
            base_url=run.gateway.base_url, check_embedding_ctx_length=False, **settings
        )
        return run

    return begin


def weather(city: str) -> str:
    """The weather in a city."""
    return f"3 degrees in {city}"


class Weather(pydantic.BaseModel):
    """The weather in a city."""

    city: str
    celsius: int


def together(pieces):
    """The message that a stream's pieces make up."""
    whole = None
    for piece in pieces:
        whole = piece if whole is None else whole + piece
    return whole


# Whole answers


def test_an_answer_and_its_usage(chat):
    run = chat([wire.answer("ok", tokens=wire.usage(20, 3, cached=16))])
    answer = run.model.invoke("Say ok.")
    assert answer.content == "ok"
    assert answer.usage_metadata["input_tokens"] == 20
    assert answer.usage_metadata["output_tokens"] == 3
    assert answer.usage_metadata["input_token_details"]["cache_read"] == 16
    assert answer.response_metadata["finish_reason"] == "stop"


def test_a_batch_is_served_in_parallel(chat):
    run = chat([wire.answer("ok") | {"sleep_ms": 50}])
    answers = run.model.batch(["Say ok."] * 8)
    assert [answer.content for answer in answers] == ["ok"] * 8
    assert len(run.vendor.requests) == 8


def test_an_async_call(chat):
    run = chat([wire.answer("ok")])
    assert asyncio.run(run.model.ainvoke("Say ok.")).content == "ok"


def test_the_responses_api(chat):
    run = chat([wire.json_reply(wire.response("ok"))], model={"use_responses_api": True})
    answer = run.model.invoke("Say ok.")
    assert answer.text == "ok"
    assert answer.usage_metadata["input_tokens"] == 12
    assert run.vendor.requests[0].target == "/v1/responses"


# Streams


def test_a_stream(chat):
    run = chat([wire.stream(["o", "k"])])
    assert "".join(piece.content for piece in run.model.stream("Say ok.")) == "ok"


def test_an_async_stream(chat):
    run = chat([wire.stream(["o", "k"])])

    async def read():
        return [piece.content async for piece in run.model.astream("Say ok.")]

    assert "".join(asyncio.run(read())) == "ok"


@pytest.mark.parametrize("wanted", [True, False])
def test_a_streams_usage_is_told_to_those_who_want_it(chat, wanted):
    run = chat([wire.stream(tokens=wire.usage(30, 2))], model={"stream_usage": wanted})
    usage = together(run.model.stream("Say ok.")).usage_metadata
    assert (usage and usage["input_tokens"]) == (30 if wanted else None)
    rows = harness.until(lambda: run.gateway.read("/admin/v1/requests")["requests"])
    assert rows[0]["usage"]["input_tokens"] == 30


def test_a_streamed_response(chat):
    run = chat([wire.response_stream(["o", "k"])], model={"use_responses_api": True})
    assert together(run.model.stream("Say ok.")).text == "ok"


def test_a_stream_that_is_cut_is_an_error_not_an_answer(chat):
    run = chat([wire.stream(["one "], done=False, end="cut", pause_ms=20)])
    seen = []
    with pytest.raises(openai.APIError) as caught:
        for piece in run.model.stream("Count."):
            seen.append(piece.content)
    assert "".join(seen) == "one "
    assert caught.value.code == "stream_interrupted"
    assert len(run.vendor.requests) == 1


def test_a_stream_cut_before_the_first_text_is_tried_again_unseen(chat):
    run = chat([wire.stream([], done=False, end="cut"), wire.stream(["o", "k"])])
    assert together(run.model.stream("Say ok.")).content == "ok"
    assert len(run.vendor.requests) == 2


def test_leaving_a_stream_cancels_the_vendors_work(chat):
    run = chat([wire.stream(["one "], done=False, end="hang")])
    pieces = run.model.stream("Count.")
    while not next(pieces).content:
        pass
    pieces.close()
    harness.until(lambda: run.vendor.requests[0].disconnected)


# Tools


def test_a_bound_tool_is_called(chat):
    run = chat([wire.answer(None, tool_calls=[ROMA])])
    (called,) = run.model.bind_tools([weather]).invoke("Weather in Rome?").tool_calls
    assert (called["name"], called["args"]) == ("weather", {"city": 'Roma, "città"'})
    (tool,) = run.vendor.requests[0].body["tools"]
    assert tool["function"]["name"] == "weather"


def test_a_bound_tool_is_called_from_a_stream(chat):
    run = chat([wire.tool_stream([BERN])])
    (called,) = together(run.model.bind_tools([weather]).stream("Weather in Bern?")).tool_calls
    assert (called["name"], called["args"]) == ("weather", {"city": "Bern"})


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_agent_of_several_turns_comes_to_its_answer(chat, streamed):
    from langchain_core.messages import HumanMessage, ToolMessage

    if streamed:
        replies = [wire.tool_stream([BERN]), wire.tool_stream([ROMA, BERN]), wire.stream(["done"])]
    else:
        replies = [
            wire.answer(None, tool_calls=[BERN]),
            wire.answer(None, tool_calls=[ROMA, BERN]),
            wire.answer("done"),
        ]
    run = chat(replies)
    model = run.model.bind_tools([weather])
    messages = [HumanMessage("Weather?")]
    while True:
        answer = together(model.stream(messages)) if streamed else model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            messages.append(ToolMessage(weather(**call["args"]), tool_call_id=call["id"]))
    assert answer.content == "done"
    first, second, third = (request.body["messages"] for request in run.vendor.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert [m["content"] for m in third if m["role"] == "tool"] == [
        "3 degrees in Bern",
        '3 degrees in Roma, "città"',
        "3 degrees in Bern",
    ]


def test_no_half_tool_call_is_shown_where_calls_are_held(chat):
    broken = wire.tool_stream([BERN])
    broken["writes"] = broken["writes"][:4]
    broken["end"] = "cut"
    run = chat([broken, wire.tool_stream([ROMA])], route='commit = "tool_calls"')
    (called,) = together(run.model.bind_tools([weather]).stream("Weather?")).tool_calls
    assert called["args"] == {"city": 'Roma, "città"'}


# Structured output


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output_is_parsed(chat, method):
    said = {"city": "Bern", "celsius": 3}
    if method == "function_calling":
        reply = wire.answer(None, tool_calls=[wire.tool_call("call_1", "Weather", said)])
    else:
        reply = wire.answer(json.dumps(said))
    run = chat([reply])
    model = run.model.with_structured_output(Weather, method=method)
    assert model.invoke("Weather in Bern as JSON?") == Weather(city="Bern", celsius=3)
    body = run.vendor.requests[0].body
    if method == "function_calling":
        assert body["tools"][0]["function"]["name"] == "Weather"
    elif method == "json_schema":
        assert body["response_format"]["json_schema"]["strict"] is True
    else:
        assert body["response_format"] == {"type": "json_object"}


def test_structured_output_is_parsed_from_a_stream(chat):
    run = chat([wire.stream(['{"city":"Be', 'rn","celsius"', ":3}"])])
    *_, last = run.model.with_structured_output(Weather).stream("Weather in Bern?")
    assert last == Weather(city="Bern", celsius=3)


def test_an_answer_that_does_not_fit_the_schema_reaches_the_program_as_it_is(chat):
    run = chat([wire.answer('{"city":"Bern"}')])
    model = run.model.with_structured_output(Weather, include_raw=True, method="json_mode")
    told = model.invoke("Weather in Bern as JSON?")
    assert told["raw"].content == '{"city":"Bern"}'
    assert told["parsed"] is None and told["parsing_error"]


# Embeddings


def test_a_query_is_embedded(embedder):
    run = embedder([wire.embeddings([[0.5, -1.0]], encoded=True)])
    assert run.model.embed_query("a") == [0.5, -1.0]
    (request,) = run.vendor.requests
    assert (request.target, request.body["model"]) == ("/v1/embeddings", "embed-test")


def test_documents_are_embedded_in_their_order(embedder):
    vectors = [[0.5, -1.0], [0.25, 2.0], [4.0, 8.0]]
    run = embedder([wire.embeddings(vectors, encoded=True)])
    assert run.model.embed_documents(["a", "b", "c"]) == vectors
    assert run.vendor.requests[0].body["input"] == ["a", "b", "c"]
    rows = harness.until(lambda: run.gateway.read("/admin/v1/requests")["requests"])
    assert rows[0]["usage"]["input_tokens"] == 7


def test_a_failing_embedding_is_sent_no_more_than_the_limit(embedder):
    run = embedder([wire.failure(500, "boom")], model={"model": "embed"}, rest=EMBED)
    with pytest.raises(openai.InternalServerError):
        run.model.embed_query("a")
    assert len(run.vendor.requests) <= 2


# Errors


def test_a_key_that_is_not_known_is_an_authentication_error(chat):
    run = chat([wire.answer()], rest=TENANT, model={"api_key": "sk-not-known-0123456789abcdef"})
    with pytest.raises(openai.AuthenticationError):
        run.model.invoke("Say ok.")
    assert run.vendor.requests == []


def test_a_misspelt_model_is_not_found_and_the_nearest_name_is_told(chat):
    run = chat([wire.answer()], model={"model": "chta"})
    with pytest.raises(openai.NotFoundError, match='"chat"'):
        run.model.invoke("Say ok.")


def test_the_vendors_complaint_about_a_request_is_passed_on(chat):
    complaint = "Unsupported value: 'temperature' must be between 0 and 2."
    run = chat([wire.failure(400, complaint, kind="invalid_request_error", param="temperature")])
    with pytest.raises(openai.BadRequestError, match="must be between 0 and 2"):
        run.model.invoke("Say ok.", temperature=9)
    assert len(run.vendor.requests) == 1


def test_a_prompt_that_is_too_long_keeps_the_code_that_programs_act_on(chat):
    text = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
    reply = wire.failure(400, text, kind="invalid_request_error", code="context_length_exceeded")
    run = chat([reply])
    with pytest.raises(openai.BadRequestError) as caught:
        run.model.invoke("Say ok.")
    assert caught.value.code == "context_length_exceeded"
    assert len(run.vendor.requests) == 1


def test_a_vendor_out_of_quota_is_not_asked_again(chat):
    text = "You exceeded your current quota, please check your plan and billing details."
    run = chat([wire.failure(429, text, kind="insufficient_quota", code="insufficient_quota")])
    with pytest.raises(openai.RateLimitError) as caught:
        run.model.invoke("Say ok.")
    assert caught.value.code == "insufficient_quota"
    assert len(run.vendor.requests) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("fails", "kind", "told"),
    [(500, "server_error", 502), (503, "server_error", 503), (429, "rate_limit_error", 429)],
)
def test_a_failing_vendor_is_sent_no_more_than_the_limit(chat, fails, kind, told, streamed):
    run = chat([wire.failure(fails, "no", kind=kind)], max_attempts=2)
    with pytest.raises(openai.APIStatusError) as caught:
        list(run.model.stream("Say ok.")) if streamed else run.model.invoke("Say ok.")
    assert caught.value.status_code == told
    assert 1 <= len(run.vendor.requests) <= 2


def test_a_vendor_that_recovers_is_served_within_one_call(chat):
    run = chat([wire.failure(500, "boom"), wire.failure(503, "busy"), wire.answer("ok")])
    assert run.model.invoke("Say ok.").content == "ok"
    assert len(run.gateway.read("/admin/v1/requests")["requests"]) == 1


# Time-outs


def test_a_program_that_gives_up_cancels_the_vendors_work(chat):
    run = chat([wire.silence()], model={"timeout": 0.5, "max_retries": 0})
    with pytest.raises(openai.APITimeoutError):
        run.model.invoke("Say ok.")
    harness.until(lambda: run.vendor.requests[0].disconnected)
    assert len(run.vendor.requests) == 1


def test_a_vendor_that_is_silent_is_given_up_in_time(chat):
    run = chat(
        [wire.silence()],
        provider='timeouts = { first_byte = "200ms" }',
        retry='ambiguous = "never"',
    )
    with pytest.raises(openai.InternalServerError) as caught:
        run.model.invoke("Say ok.")
    assert caught.value.status_code == 504
    assert len(run.vendor.requests) == 1


def test_silence_in_a_stream_is_bridged_with_what_langchain_bears(chat):
    slow = wire.stream(["one "], done=False)
    slow["writes"] += [{"sleep_ms": 700}, wire.chunk({"content": "two"})]
    slow["writes"] += wire.stream([])["writes"][1:]
    run = chat(
        [slow], route='keepalive = "100ms"', model={"timeout": 0.4, "max_retries": 0}
    )
    assert together(run.model.stream("Count.")).content == "one two"
