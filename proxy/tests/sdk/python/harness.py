"""Starts the real gateway before a scripted vendor, and says what the vendor saw.

`WHIPPLETREE` names the gateway's binary and `WHIPPLETREE_LOADTEST` the vendor's; without them the
newest build under `target/` is taken. Every process ends with the test that started it.
"""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 10.0

CONFIG = """
[server]
listen = "{listen}"
{server}

[admin]
listen = "{admin}"

[store]
path = "{store}"

[providers.vendor]
kind = "openai"
base_url = "{base_url}"
keys = [{{ env = "VENDOR_KEY" }}]
{provider}

[routes.chat]
targets = ["vendor/gpt-test"]
{route}

[routes.chat.retry]
max_attempts = {max_attempts}
base = "10ms"
cap = "20ms"
{retry}

[targets."vendor/gpt-test"]
price = {{ input = "1.00", output = "2.00", per = 1_000_000 }}

[prices]
unknown_model = {{ input = "1.00", output = "2.00", per = 1_000_000 }}
{rest}
"""

VENDOR_KEY = "sk-vendor-secret-0123456789"


def binary(name, variable):
    """The program to test: as the environment says, else the newest build."""
    if variable in os.environ:
        return os.environ[variable]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    builds = [target / profile / name for profile in ("release", "debug")]
    builds = [path for path in builds if path.exists()]
    if not builds:
        raise RuntimeError(f"{name} is not built: cargo build --workspace --bins")
    return str(max(builds, key=lambda path: path.stat().st_mtime))


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


def until(condition, patience=PATIENCE):
    """Waits for a condition and returns what it came to; fails when it never does."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("waited %.0f s in vain" % patience)
        time.sleep(0.005)


class Vendor:
    """A scripted vendor. It is spoken to over its standard input, so it cannot outlive the test."""

    def __init__(self, replies):
        self.process = subprocess.Popen(
            [binary("whippletree-loadtest", "WHIPPLETREE_LOADTEST"), "steered"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = json.loads(self.process.stdout.readline())["listening"]
        self.script(replies)

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def script(self, replies):
        self.ask({"script": {"replies": replies}})

    @property
    def requests(self):
        """Everything received so far, in order."""
        return [Request(fields) for fields in self.ask({"requests": True})["requests"]]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Request:
    """One request as the vendor received it."""

    def __init__(self, fields):
        self.method = fields["method"]
        self.target = fields["target"]
        self.headers = {name.lower(): value for name, value in fields["headers"]}
        self.text = fields["body"]
        self.disconnected = fields["disconnected"]

    @property
    def body(self):
        return json.loads(self.text)


class Gateway:
    """The gateway on free ports, ready to serve."""

    def __init__(self, folder, vendor, **parts):
        address, admin = free_address(), free_address()
        fields = dict.fromkeys(("server", "provider", "route", "retry", "rest"), "")
        fields.update(max_attempts=3, store=":memory:")
        fields.update(parts)
        config = folder / "whippletree.toml"
        base_url = f"http://{vendor.address}/v1"
        config.write_text(CONFIG.format(listen=address, admin=admin, base_url=base_url, **fields))
        self.base_url = f"http://{address}/v1"
        self.admin = f"http://{admin}"
        self.log = folder / "gateway.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [binary("whippletree", "WHIPPLETREE"), "serve", "--config", str(config)],
                env={**os.environ, "VENDOR_KEY": VENDOR_KEY},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(self.ready)

    def ready(self):
        if self.process.poll() is not None:
            raise RuntimeError("the gateway ended: " + self.log.read_text())
        try:
            with urllib.request.urlopen(self.admin + "/readyz", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def read(self, path):
        """An answer of the admin plane."""
        with urllib.request.urlopen(self.admin + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def stop(self):
        early = self.process.poll()
        assert early is None, f"the gateway ended by itself with {early}: {self.log.read_text()}"
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the gateway did not end on SIGTERM") from None
