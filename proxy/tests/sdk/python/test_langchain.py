"""LangChain as a client: it brings its own message types, its own streaming and tool binding."""

import pytest
import wire

langchain_openai = pytest.importorskip("langchain_openai")


@pytest.fixture
def chat(start):
    def begin(replies, **parts):
        run = start(replies, **parts)
        run.model = langchain_openai.ChatOpenAI(
            model="chat", base_url=run.gateway.base_url, api_key="any", timeout=20
        )
        return run

    return begin


def test_an_answer_and_its_usage(chat):
    run = chat([wire.answer("ok", tokens=wire.usage(20, 3))])
    answer = run.model.invoke("Say ok.")
    assert answer.content == "ok"
    assert answer.usage_metadata["input_tokens"] == 20


def test_a_stream(chat):
    run = chat([wire.stream(["o", "k"])])
    assert "".join(piece.content for piece in run.model.stream("Say ok.")) == "ok"


def test_a_bound_tool_is_called_from_a_stream(chat):
    call = wire.tool_call("call_1", "weather", {"city": "Bern"})
    run = chat([wire.tool_stream([call])])

    def weather(city: str) -> str:
        """The weather in a city."""
        return city

    whole = None
    for piece in run.model.bind_tools([weather]).stream("Weather in Bern?"):
        whole = piece if whole is None else whole + piece
    (called,) = whole.tool_calls
    assert (called["name"], called["args"]) == ("weather", {"city": "Bern"})


def test_a_failing_vendor_is_sent_no_more_than_the_limit(chat):
    run = chat([wire.failure(500, "boom")], max_attempts=2)
    with pytest.raises(Exception) as caught:
        run.model.invoke("Say ok.")
    assert caught.value.status_code == 502
    assert len(run.vendor.requests) <= 2


def test_embeddings_sent_as_token_numbers_pass(start):
    run = start([wire.embeddings([[0.5, -1.0]], encoded=True)])
    model = langchain_openai.OpenAIEmbeddings(
        model="vendor/embed-test",
        base_url=run.gateway.base_url,
        api_key="any",
        check_embedding_ctx_length=False,
    )
    assert model.embed_query("a") == [0.5, -1.0]
