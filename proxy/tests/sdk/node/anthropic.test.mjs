// Anthropic's own SDK for Node: its dialect on both sides of the gateway.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import { start, VENDOR_KEY } from './harness.mjs';

// Below the three sends that the SDK makes by itself.
const LIMIT = 2;
const HELLO = [{ role: 'user', content: 'Say ok.' }];

const claude = (vendor) => `
[providers.claude]
kind = "anthropic"
base_url = "http://${vendor}/v1"
keys = [{ env = "VENDOR_KEY" }]

[routes.claude]
targets = ["claude/big"]
retry = { max_attempts = ${LIMIT}, base = "10ms", cap = "20ms" }
`;

async function begin(t, replies) {
  const run = await start(t, replies, ({ address }) => ({ rest: claude(address) }));
  const baseURL = run.gateway.baseURL.replace(/\/v1$/, '');
  return { ...run, client: new Anthropic({ baseURL, apiKey: 'sk-client-secret', timeout: 20_000 }) };
}

const ask = (run, more = {}) => run.client.messages.create({ model: 'claude', max_tokens: 64, messages: HELLO, ...more });

const json = (status, body) => ({ status, headers: { 'content-type': 'application/json' }, body });

const message = (content, stop = 'end_turn') => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'big',
  content,
  stop_reason: stop,
  stop_sequence: null,
  usage: { input_tokens: 12, cache_read_input_tokens: 100, cache_creation_input_tokens: 0, output_tokens: 5 },
});

const failure = (status, type, words) => json(status, { type: 'error', error: { type, message: words }, request_id: 'req_1' });

const stream = (...events) => ({
  status: 200,
  headers: { 'content-type': 'text/event-stream' },
  writes: events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`),
});

const opening = { type: 'message_start', message: { ...message([]), stop_reason: null } };
const block = (content) => ({ type: 'content_block_start', index: 0, content_block: content });
const delta = (parts) => ({ type: 'content_block_delta', index: 0, delta: parts });
const closing = (stop = 'end_turn') => [
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 5 } },
  { type: 'message_stop' },
];
const says = (...words) =>
  stream(opening, block({ type: 'text', text: '' }), ...words.map((text) => delta({ type: 'text_delta', text })), ...closing());

test('a message arrives with its usage, and the vendor gets its own key', async (t) => {
  const run = await begin(t, [json(200, message([{ type: 'text', text: 'ok' }]))]);
  const answer = await ask(run);
  assert.equal(answer.content[0].text, 'ok');
  assert.equal(answer.usage.cache_read_input_tokens, 100);
  const [request] = await run.vendor.requests();
  assert.equal(request.headers['x-api-key'], VENDOR_KEY);
  assert.deepEqual(request.json(), { model: 'big', max_tokens: 64, messages: HELLO });
});

test('a stream arrives event by event', async (t) => {
  const run = await begin(t, [says('o', 'k')]);
  const answer = run.client.messages.stream({ model: 'claude', max_tokens: 64, messages: HELLO });
  const words = [];
  answer.on('text', (text) => words.push(text));
  const final = await answer.finalMessage();
  assert.deepEqual(words, ['o', 'k']);
  assert.equal(final.stop_reason, 'end_turn');
  assert.equal(final.usage.output_tokens, 5);
});

test('the arguments of a tool come together from their pieces', async (t) => {
  const reply = stream(
    opening,
    block({ type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }),
    delta({ type: 'input_json_delta', partial_json: '' }),
    delta({ type: 'input_json_delta', partial_json: '{"place": "O' }),
    delta({ type: 'input_json_delta', partial_json: 'slo"}' }),
    ...closing('tool_use'),
  );
  const run = await begin(t, [reply]);
  const tools = [{ name: 'weather', input_schema: { type: 'object', properties: { place: { type: 'string' } } } }];
  const answer = run.client.messages.stream({ model: 'claude', max_tokens: 64, messages: HELLO, tools });
  const final = await answer.finalMessage();
  assert.deepEqual(final.content[0].input, { place: 'Oslo' });
});

for (const [reply, status, type] of [
  [failure(529, 'overloaded_error', 'Overloaded'), 529, 'api_error'],
  [failure(500, 'api_error', 'Internal'), 502, 'api_error'],
  [failure(429, 'rate_limit_error', 'slow down'), 429, 'rate_limit_error'],
]) {
  test(`a vendor that keeps answering ${type} is sent no more than the limit`, async (t) => {
    const run = await begin(t, [reply]);
    await assert.rejects(ask(run), (error) => {
      assert.equal(error.status, status);
      assert.equal(error.error.error.type, type);
      return true;
    });
    assert.equal((await run.vendor.requests()).length, LIMIT);
    const { requests } = await run.gateway.read('/admin/v1/requests');
    assert.equal(requests.length, 1, 'the SDK sent its request again');
  });
}

test('a stream that is overloaded before its first word is tried again, unseen', async (t) => {
  const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  const run = await begin(t, [stream(opening, { type: 'ping' }, overloaded), says('ok')]);
  const answer = run.client.messages.stream({ model: 'claude', max_tokens: 64, messages: HELLO });
  assert.equal(await answer.finalText(), 'ok');
  assert.equal((await run.vendor.requests()).length, 2);
});

test('a stream that breaks is an error, not an answer', async (t) => {
  const run = await begin(t, [stream(opening, block({ type: 'text', text: '' }), delta({ type: 'text_delta', text: 'o' }))]);
  const answer = await ask(run, { stream: true });
  await assert.rejects(async () => {
    for await (const event of answer) assert.notEqual(event.type, 'message_stop');
  }, /ended before the answer/);
});
