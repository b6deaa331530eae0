"""What is not chat: the list of models, the Responses API, and paths that are only relayed."""

import io

import wire


def test_the_list_of_models_names_the_routes(start):
    run = start([wire.answer()])
    names = [model.id for model in run.client.models.list()]
    assert "chat" in names
    assert run.vendor.requests == []


def test_a_response_passes_through_whole(start):
    run = start([wire.json_reply(wire.response("ok"))])
    answer = run.client.responses.create(
        model="chat", input="Say ok.", reasoning={"effort": "low"}, store=False
    )
    assert answer.output_text == "ok"
    assert answer.usage.input_tokens == 12
    (request,) = run.vendor.requests
    assert request.target == "/v1/responses"
    assert request.body == {
        "input": "Say ok.",
        "model": "gpt-test",
        "reasoning": {"effort": "low"},
        "store": False,
    }


def test_a_streamed_response_passes_through_event_by_event(start):
    run = start([wire.response_stream(["o", "k"])])
    events = list(run.client.responses.create(model="chat", input="Say ok.", stream=True))
    assert [event.type for event in events] == [
        "response.created",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.completed",
    ]
    assert "".join(event.delta for event in events[1:3]) == "ok"
    (request,) = run.vendor.requests
    assert "stream_options" not in request.body


def test_an_uploaded_file_reaches_the_vendor_byte_for_byte(start):
    content = bytes(range(32, 127)) * 50
    stored = {
        "id": "file-1",
        "object": "file",
        "bytes": len(content),
        "created_at": 1,
        "filename": "cases.jsonl",
        "purpose": "batch",
        "status": "processed",
    }
    run = start([wire.json_reply(stored)])
    answer = run.client.files.create(
        file=("cases.jsonl", io.BytesIO(content)), purpose="batch"
    )
    assert answer.id == "file-1"
    (request,) = run.vendor.requests
    assert (request.method, request.target) == ("POST", "/v1/files")
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert content.decode() in request.text


def test_a_files_content_comes_back_as_the_vendor_sent_it(start):
    reply = {
        "status": 200,
        "headers": {"content-type": "application/octet-stream"},
        "writes": [{"hex": "00ff10"}, "text", {"hex": "fe"}],
    }
    run = start([reply])
    assert run.client.files.content("file-1").read() == b"\x00\xff\x10text\xfe"
    (request,) = run.vendor.requests
    assert (request.method, request.target) == ("GET", "/v1/files/file-1/content")


def test_a_query_is_relayed(start):
    page = {"object": "list", "data": [], "has_more": False}
    run = start([wire.json_reply(page)])
    list(run.client.batches.list(limit=7))
    (request,) = run.vendor.requests
    assert request.target == "/v1/batches?limit=7"
