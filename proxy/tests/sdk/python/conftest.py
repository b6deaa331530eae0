import types

import harness
import openai
import pytest


def pytest_report_header():
    return f"openai {openai.__version__}"


@pytest.fixture
def start(tmp_path):
    """start(replies, …) -> a running vendor, gateway and client; all end with the test."""
    running = []

    def begin(replies, *, client=None, **parts):
        vendor = harness.Vendor(replies)
        running.append(vendor)
        gateway = harness.Gateway(tmp_path, vendor, **parts)
        running.append(gateway)
        settings = {"api_key": "sk-client-secret", "timeout": 20.0, **(client or {})}
        return types.SimpleNamespace(
            vendor=vendor,
            gateway=gateway,
            client=openai.OpenAI(base_url=gateway.base_url, **settings),
        )

    yield begin
    for thing in reversed(running):
        thing.stop()
    log = tmp_path / "gateway.log"
    if log.exists():
        text = log.read_text()
        assert harness.VENDOR_KEY not in text, "a vendor's key is in the log"
        assert "panicked" not in text, text


@pytest.fixture
def messages():
    return [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "Say ok."},
    ]
