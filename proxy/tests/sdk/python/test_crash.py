"""`kill -9` at any instant: what a client was answered is on the record after the restart."""

import concurrent.futures
import os
import random
import signal
import time
from decimal import Decimal

import harness
import openai
import pytest
import wire

# A round takes half a second.
ROUNDS = int(os.environ.get("CRASH_ROUNDS", "100"))
CLIENTS = 8
MESSAGES = [{"role": "user", "content": "Say ok."}]
# 100 tokens at $1 a million and 7 at $2.
COST = Decimal("0.000114")


def ask_until_killed(gateway, stream, answered):
    """Asks again and again; each answer that came whole is noted by its request's id."""
    client = openai.OpenAI(
        base_url=gateway.base_url, api_key="any", timeout=20, max_retries=0
    )
    while True:
        try:
            answer = client.chat.completions.with_raw_response.create(
                model="chat", messages=MESSAGES, stream=stream
            )
            if stream:
                events = list(answer.parse())
                assert events[-1].choices[0].finish_reason == "stop"
            answered.append(answer.headers["x-wt-request-id"])
        except openai.APIError:
            return


def recorded(gateway):
    """Every exchange on the record, by its request's id."""
    rows, cursor = {}, None
    while True:
        page = gateway.read(
            "/admin/v1/requests?limit=500" + (f"&cursor={cursor}" if cursor else "")
        )
        for row in page["requests"]:
            assert row["request_id"] not in rows, "a request is on the record twice"
            rows[row["request_id"]] = row
        cursor = page.get("next_cursor")
        if not cursor:
            return rows


@pytest.mark.crash
def test_every_answer_is_on_the_record_after_kill_9(tmp_path):
    whole = wire.answer("ok", tokens=wire.usage(100, 7)) | {"sleep_ms": 3}
    streamed = wire.stream(["o", "k"], tokens=wire.usage(100, 7), pause_ms=2)
    vendors = {False: harness.Vendor([whole]), True: harness.Vendor([streamed])}
    store = str(tmp_path / "whippletree.db")
    dice = random.Random(20261130)
    answered = []
    try:
        for number in range(ROUNDS):
            stream = number % 2 == 1
            gateway = harness.Gateway(tmp_path, vendors[stream], store=store)
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                calls = [
                    pool.submit(ask_until_killed, gateway, stream, answered)
                    for _ in range(CLIENTS)
                ]
                time.sleep(dice.uniform(0.05, 0.4))
                gateway.process.send_signal(signal.SIGKILL)
                gateway.process.wait()
                for call in calls:
                    call.result(timeout=30)
        gateway = harness.Gateway(tmp_path, vendors[False], store=store)
        rows = recorded(gateway)
        gateway.stop()
    finally:
        for vendor in vendors.values():
            vendor.stop()
    assert len(answered) > ROUNDS, "too little was answered to prove anything"
    lost = [identity for identity in answered if identity not in rows]
    assert lost == [], f"{len(lost)} of {len(answered)} answers are not on the record"
    wrong = {rows[identity]["cost_usd"] for identity in answered} - {f"{COST}"}
    assert {Decimal(cost) for cost in wrong} <= {COST}
    print(f"{len(answered)} answers, {len(rows)} exchanges on the record")
