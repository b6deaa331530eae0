// Starts the real gateway before a scripted vendor, and says what the vendor saw.
//
// `WHIPPLETREE` names the gateway's binary and `WHIPPLETREE_LOADTEST` the vendor's; without them the
// newest build under `target/` is taken. Every process ends with the test that started it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const ROOT = resolve(import.meta.dirname, '../../../..');
const PATIENCE_MS = 10_000;

export const VENDOR_KEY = 'sk-vendor-secret-0123456789';

function binary(name, variable) {
  if (process.env[variable]) return process.env[variable];
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target');
  const builds = ['release', 'debug'].map((profile) => join(target, profile, name)).filter(existsSync);
  assert.ok(builds.length > 0, `${name} is not built: cargo build --workspace --bins`);
  return builds.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
}

function freeAddress() {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(`127.0.0.1:${port}`));
    });
  });
}

const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

/** Waits for a condition and returns what it came to; fails when it never does. */
export async function until(condition) {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(performance.now() < end, `waited ${PATIENCE_MS} ms in vain`);
    await pause(5);
  }
}

const ended = (process) =>
  new Promise((resolve) => (process.exitCode === null && process.signalCode === null ? process.once('exit', resolve) : resolve()));

/** A scripted vendor. It is spoken to over its standard input, so it cannot outlive the test. */
class Vendor {
  static async start(replies) {
    const vendor = new Vendor();
    vendor.process = spawn(binary('whippletree-loadtest', 'WHIPPLETREE_LOADTEST'), ['steered'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    vendor.lines = createInterface({ input: vendor.process.stdout })[Symbol.asyncIterator]();
    vendor.address = (await vendor.line()).listening;
    await vendor.ask({ script: { replies } });
    return vendor;
  }

  async line() {
    const { value, done } = await this.lines.next();
    assert.ok(!done, 'the vendor ended');
    return JSON.parse(value);
  }

  async ask(command) {
    this.process.stdin.write(`${JSON.stringify(command)}\n`);
    const answer = await this.line();
    assert.equal(answer.error, undefined);
    return answer;
  }

  /** Everything received so far, in order. */
  async requests() {
    const { requests } = await this.ask({ requests: true });
    return requests.map((request) => ({
      ...request,
      headers: Object.fromEntries(request.headers.map(([name, value]) => [name.toLowerCase(), value])),
      json: () => JSON.parse(request.body),
    }));
  }

  async stop() {
    this.process.stdin.end();
    await ended(this.process);
  }
}

/** The gateway on free ports, ready to serve. */
class Gateway {
  static async start(vendor, parts) {
    const gateway = new Gateway();
    gateway.folder = mkdtempSync(join(tmpdir(), 'whippletree-sdk-'));
    const [listen, admin] = [await freeAddress(), await freeAddress()];
    const config = join(gateway.folder, 'whippletree.toml');
    writeFileSync(config, configuration({ listen, admin, vendor: vendor.address, ...parts }));
    gateway.baseURL = `http://${listen}/v1`;
    gateway.admin = `http://${admin}`;
    gateway.log = join(gateway.folder, 'gateway.log');
    const log = openSync(gateway.log, 'w');
    gateway.process = spawn(binary('whippletree', 'WHIPPLETREE'), ['serve', '--config', config], {
      env: { ...process.env, VENDOR_KEY },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    await until(() => gateway.ready());
    return gateway;
  }

  async ready() {
    assert.equal(this.process.exitCode, null, `the gateway ended: ${readFileSync(this.log, 'utf8')}`);
    return fetch(`${this.admin}/readyz`).then((answer) => answer.ok, () => false);
  }

  /** An answer of the admin plane. */
  async read(path) {
    return (await fetch(this.admin + path)).json();
  }

  async stop() {
    this.process.kill('SIGTERM');
    const deadline = setTimeout(() => this.process.kill('SIGKILL'), PATIENCE_MS);
    await ended(this.process);
    clearTimeout(deadline);
    const log = readFileSync(this.log, 'utf8');
    rmSync(this.folder, { recursive: true });
    assert.notEqual(this.process.signalCode, 'SIGKILL', 'the gateway did not end on SIGTERM');
    assert.ok(!log.includes(VENDOR_KEY), "a vendor's key is in the log");
    assert.ok(!log.includes('panicked'), log);
  }
}

function configuration({ listen, admin, vendor, server = '', provider = '', route = '', retry = '', maxAttempts = 3, rest = '' }) {
  return `
[server]
listen = "${listen}"
${server}

[admin]
listen = "${admin}"

[store]
path = ":memory:"

[providers.vendor]
kind = "openai"
base_url = "http://${vendor}/v1"
keys = [{ env = "VENDOR_KEY" }]
${provider}

[routes.chat]
targets = ["vendor/gpt-test"]
${route}

[routes.chat.retry]
max_attempts = ${maxAttempts}
base = "10ms"
cap = "20ms"
${retry}

[prices]
unknown_model = { input = "1.00", output = "2.00", per = 1_000_000 }
${rest}
`;
}

/** A key of a tenant, and the configuration that knows it. */
export const KEY = 'sk-team-secret-0123456789abcdef';
export const TENANT = `
[tenants.acme]
keys = [{ name = "ci", sha256 = "${createHash('sha256').update(KEY).digest('hex')}" }]
`;

/** What is on record of the newest request, once there is one. */
export const newest = ({ gateway }) => until(async () => (await gateway.read('/admin/v1/requests')).requests[0]);

/**
 * A running vendor and gateway; both end with the test. `parts` may be a function of the vendor, for
 * what depends on its address.
 */
export async function start(test, replies, parts = {}) {
  const vendor = await Vendor.start(replies);
  test.after(() => vendor.stop());
  const gateway = await Gateway.start(vendor, typeof parts === 'function' ? parts(vendor) : parts);
  test.after(() => gateway.stop());
  return { vendor, gateway };
}
