"""Prints the metrics page of a gateway that has served, failed and refused: `promtool` reads it."""

import sys
import tempfile
import urllib.request
from pathlib import Path

import harness
import openai
import wire

MESSAGES = [{"role": "user", "content": "Say ok."}]


def main():
    replies = [wire.answer("ok"), wire.stream(["o", "k"]), wire.failure(500, "boom")]
    with tempfile.TemporaryDirectory() as folder:
        vendor = harness.Vendor(replies)
        gateway = harness.Gateway(Path(folder), vendor)
        try:
            client = openai.OpenAI(base_url=gateway.base_url, api_key="any", timeout=20)
            chat = client.chat.completions
            chat.create(model="chat", messages=MESSAGES)
            list(chat.create(model="chat", messages=MESSAGES, stream=True))
            for model in ("chat", "not-there"):
                try:
                    chat.create(model=model, messages=MESSAGES)
                except openai.APIStatusError:
                    continue
                raise AssertionError(f"{model} was served")
            with urllib.request.urlopen(gateway.admin + "/metrics") as page:
                sys.stdout.buffer.write(page.read())
        finally:
            gateway.stop()
            vendor.stop()


if __name__ == "__main__":
    main()
