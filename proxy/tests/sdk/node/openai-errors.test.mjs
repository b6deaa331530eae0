// Errors, retries and time-outs as the official OpenAI SDK for Node shows them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI from 'openai';

import { KEY, newest, start, TENANT, until } from './harness.mjs';
import * as wire from './wire.mjs';

const MESSAGES = [{ role: 'user', content: 'Say ok.' }];
// Below the three sends that the SDK makes by itself.
const LIMIT = 2;

const client = ({ gateway }, settings = {}) =>
  new OpenAI({ baseURL: gateway.baseURL, apiKey: 'sk-client-secret', timeout: 20_000, ...settings });
const ask = (run, more = {}, settings = {}) => client(run, settings).chat.completions.create({ model: 'chat', messages: MESSAGES, ...more });

/** The error that a call ends with. */
const failed = (call) => call.then(() => assert.fail('it was answered'), (error) => error);
const sends = async (run) => (await run.vendor.requests()).length;

test('a key that is not known is an authentication error', async (t) => {
  const run = await start(t, [wire.answer('ok')], { rest: TENANT });
  const error = await failed(ask(run, {}, { apiKey: 'sk-not-known-0123456789abcdef' }));
  assert.ok(error instanceof OpenAI.AuthenticationError);
  assert.ok(!error.message.includes('sk-not-known'));
  assert.equal(await sends(run), 0);
});

test('a key that is known is served and booked on its tenant', async (t) => {
  const run = await start(t, [wire.answer('ok')], { rest: TENANT });
  await ask(run, {}, { apiKey: KEY });
  const { tenant, key } = await newest(run);
  assert.deepEqual([tenant, key], ['acme', 'ci']);
  assert.ok(!JSON.stringify(await run.vendor.requests()).includes(KEY));
});

test('a prompt that is too long keeps the code that harnesses act on', async (t) => {
  const text = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
  const run = await start(t, [wire.failure(400, text, { type: 'invalid_request_error', code: 'context_length_exceeded' })]);
  const error = await failed(ask(run));
  assert.ok(error instanceof OpenAI.BadRequestError);
  assert.equal(error.code, 'context_length_exceeded');
  assert.match(error.message, /maximum context length/);
  assert.equal(await sends(run), 1);
});

test('the field that the vendor complains of is named', async (t) => {
  const run = await start(t, [wire.failure(400, 'no', { type: 'invalid_request_error', param: 'temperature' })]);
  assert.equal((await failed(ask(run, { temperature: 9 }))).param, 'temperature');
});

test('a body over the limit is refused before it reaches a vendor', async (t) => {
  const run = await start(t, [wire.answer('ok')], { server: 'max_body = "64KiB"' });
  const error = await failed(ask(run, { messages: [{ role: 'user', content: 'x'.repeat(100_000) }] }));
  assert.equal(error.status, 413);
  assert.equal(await sends(run), 0);
});

test('a vendor out of quota is not asked again', async (t) => {
  const text = 'You exceeded your current quota, please check your plan and billing details.';
  const run = await start(t, [wire.failure(429, text, { type: 'insufficient_quota', code: 'insufficient_quota' })]);
  const error = await failed(ask(run));
  assert.ok(error instanceof OpenAI.RateLimitError);
  assert.equal(error.code, 'insufficient_quota');
  assert.equal(await sends(run), 1);
});

test("the gateway's own key refused by the vendor is never the client's fault", async (t) => {
  const run = await start(t, [wire.failure(401, 'Incorrect API key provided', { code: 'invalid_api_key' })]);
  const error = await failed(ask(run));
  assert.equal(error.status, 502);
  assert.equal(error.error.whippletree.class, 'vendor_auth');
});

test('an error names its attempts', async (t) => {
  const run = await start(t, [wire.failure(500, 'boom'), wire.failure(503, 'busy'), wire.reset()]);
  const error = await failed(ask(run));
  const told = error.error.whippletree;
  assert.deepEqual(told.attempts.slice(0, 2).map((attempt) => attempt.status), [500, 503]);
  assert.equal(told.request_id, error.headers.get('x-wt-request-id'));
});

test('an empty model is refused', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  assert.equal((await failed(ask(run, { model: '' }))).status, 404);
  assert.equal(await sends(run), 0);
});

for (const [reply, status] of [[wire.failure(500, 'boom'), 502], [wire.failure(503, 'busy'), 503], [wire.limited(), 429]]) {
  test(`a stream's vendor that keeps answering ${reply.status} is sent no more than the limit`, async (t) => {
    const run = await start(t, [reply], { maxAttempts: LIMIT });
    const error = await failed(ask(run, { stream: true }));
    assert.equal(error.status, status);
    assert.equal(error.headers.get('x-should-retry'), 'false');
    assert.ok((await sends(run)) <= LIMIT);
  });
}

test('a vendor that resets is sent an ambiguous request once more at most', async (t) => {
  const run = await start(t, [wire.reset()], { maxAttempts: 4 });
  assert.equal((await failed(ask(run))).status, 502);
  assert.equal(await sends(run), 2);
});

test('a vendor that recovers is served within one call of the SDK', async (t) => {
  const run = await start(t, [wire.failure(500, 'boom'), wire.failure(503, 'busy'), wire.answer('ok')]);
  const { data, response } = await ask(run).withResponse();
  assert.equal(data.choices[0].message.content, 'ok');
  assert.equal(response.headers.get('x-wt-attempts'), '3');
  assert.equal((await run.gateway.read('/admin/v1/requests')).requests.length, 1);
});

test('a vendor that is silent is given up in time', async (t) => {
  const run = await start(t, [wire.silence()], { provider: 'timeouts = { first_byte = "200ms" }', retry: 'ambiguous = "never"' });
  const error = await failed(ask(run));
  assert.equal(error.status, 504);
  assert.equal(error.error.whippletree.class, 'timeout');
  assert.equal(await sends(run), 1);
});

test('a wait longer than the route bears is not waited for', async (t) => {
  const run = await start(t, [wire.limited({ 'retry-after': '50' })], { retry: 'max_wait = "1s"' });
  const error = await failed(ask(run));
  assert.ok(error instanceof OpenAI.RateLimitError);
  const wait = Number(error.headers.get('retry-after'));
  assert.ok(wait >= 45 && wait <= 56, `${wait}`);
  assert.equal(await sends(run), 1);
});

test('a client that gives up is not charged for its retry: it gets the one call', async (t) => {
  const run = await start(t, [{ ...wire.answer('ok'), sleep_ms: 1000 }]);
  const answer = await ask(run, {}, { timeout: 700, maxRetries: 2 });
  assert.equal(answer.choices[0].message.content, 'ok');
  await until(async () => (await run.gateway.read('/admin/v1/requests')).requests.length >= 2);
  assert.equal(await sends(run), 1);
});
