// Answers, streams and tools of the official OpenAI SDK for Node, and what the vendor is sent.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI from 'openai';

import { newest, start, until } from './harness.mjs';
import * as wire from './wire.mjs';

const MESSAGES = [{ role: 'user', content: 'Say ok.' }];
const TOOL = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
const bern = wire.toolCall('call_1', 'weather', { city: 'Bern' });
const roma = wire.toolCall('call_2', 'weather', { city: 'Roma "città"' });

const client = ({ gateway }, settings = {}) =>
  new OpenAI({ baseURL: gateway.baseURL, apiKey: 'sk-client-secret', timeout: 20_000, ...settings });
const ask = (run, more = {}, settings = {}) => client(run, settings).chat.completions.create({ model: 'chat', messages: MESSAGES, ...more });

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

const textOf = (events) => events.map((event) => event.choices[0]?.delta?.content ?? '').join('');
const argumentsOf = (events) =>
  events.flatMap((event) => event.choices[0]?.delta?.tool_calls ?? []).map((call) => call.function.arguments ?? '').join('');

test('the answer says what it cost, as the record does', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  const { response } = await ask(run).withResponse();
  // 12 tokens at $1 a million and 5 at $2.
  assert.equal(Number(response.headers.get('x-wt-cost-usd')), 0.000022);
  assert.equal(response.headers.get('x-wt-attempts'), '1');
  const exchange = await newest(run);
  assert.equal(exchange.request_id, response.headers.get('x-wt-request-id'));
  assert.equal(Number(exchange.cost_usd), 0.000022);
  assert.equal(exchange.usage.output_tokens, 5);
});

test("neither the client's key nor the gateway's headers reach the vendor", async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  await client(run).chat.completions.create({ model: 'chat', messages: MESSAGES }, { headers: { 'x-wt-task': 'run-7' } });
  const [{ headers }] = await run.vendor.requests();
  assert.ok(!JSON.stringify(headers).includes('sk-client-secret'));
  assert.deepEqual(Object.keys(headers).filter((name) => name.startsWith('x-wt-') && name !== 'x-wt-attempt-owner'), []);
  assert.equal((await newest(run)).task, 'run-7');
});

test('unknown fields reach the vendor as they came', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  const extra = { vendor_extension: { z: 1, a: [1.5, 1e30] }, seed: 7 };
  await ask(run, extra);
  const [request] = await run.vendor.requests();
  assert.equal(request.body, JSON.stringify({ model: 'gpt-test', messages: MESSAGES, ...extra }));
});

test('a direct name needs no route', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  await ask(run, { model: 'vendor/some-model' });
  assert.equal((await run.vendor.requests())[0].json().model, 'some-model');
});

test('many calls at once each get their own answer', async (t) => {
  const run = await start(t, [{ ...wire.answer('answer {n}'), sleep_ms: 20 }]);
  const openai = client(run);
  const calls = Array.from({ length: 16 }, () => openai.chat.completions.create({ model: 'chat', messages: MESSAGES }));
  const texts = (await Promise.all(calls)).map((answer) => answer.choices[0].message.content);
  assert.equal(new Set(texts).size, 16);
});

test('embeddings keep their order, and token numbers pass as they came', async (t) => {
  const run = await start(t, [wire.embeddings([[0.5, -1], [0.25, 2]])]);
  const answer = await client(run).embeddings.create({ model: 'vendor/embed-test', input: [[9906], [1917]] });
  assert.deepEqual(answer.data.map((row) => row.embedding), [[0.5, -1], [0.25, 2]]);
  const [request] = await run.vendor.requests();
  assert.deepEqual(request.json().input, [[9906], [1917]]);
});

test("a file's content comes back as the vendor sent it, and a query is relayed", async (t) => {
  const file = { status: 200, headers: { 'content-type': 'application/octet-stream' }, writes: [{ hex: '00ff10' }, 'text', { hex: 'fe' }] };
  const run = await start(t, [file, wire.json({ object: 'list', data: [], has_more: false })]);
  const content = Buffer.from(await (await client(run).files.content('file-1')).arrayBuffer());
  assert.deepEqual(content, Buffer.from([0, 0xff, 0x10, ...Buffer.from('text'), 0xfe]));
  await client(run).batches.list({ limit: 7 });
  const targets = (await run.vendor.requests()).map((request) => request.target);
  assert.deepEqual(targets, ['/v1/files/file-1/content', '/v1/batches?limit=7']);
});

test("a stream's usage is on record though the client did not ask", async (t) => {
  const run = await start(t, [wire.stream(['ok'])]);
  await collect(await ask(run, { stream: true }));
  const { stream, usage } = await newest(run);
  assert.deepEqual([stream, usage.input_tokens, usage.output_tokens], [true, 12, 5]);
});

test("the SDK's stream helper collects the answer", async (t) => {
  const run = await start(t, [wire.stream(['o', 'k'])]);
  const helper = client(run).chat.completions.stream({ model: 'chat', messages: MESSAGES });
  assert.equal((await helper.finalChatCompletion()).choices[0].message.content, 'ok');
});

test('a stream cut before the first text is tried again unseen', async (t) => {
  const run = await start(t, [wire.stream([], { done: false, end: 'cut' }), wire.stream(['o', 'k'])]);
  const events = await collect(await ask(run, { stream: true }));
  assert.equal(textOf(events), 'ok');
  assert.equal(events.filter((event) => event.choices[0].delta.role).length, 1, "the broken stream's opening was shown");
  assert.equal((await run.vendor.requests()).length, 2);
});

for (const end of ['reset', 'clean']) {
  test(`a stream that ends (${end}) without its terminator is an error`, async (t) => {
    const run = await start(t, [wire.stream(['one '], { done: false, end, pauseMs: 20 })]);
    const seen = [];
    await assert.rejects(async () => {
      for await (const event of await ask(run, { stream: true })) seen.push(event);
    }, (error) => error.code === 'stream_interrupted');
    assert.equal(textOf(seen), 'one ');
    assert.ok(seen.every((event) => event.choices[0].finish_reason === null));
    assert.equal((await run.vendor.requests()).length, 1);
  });
}

test('silence in a stream is bridged with what the SDK bears', async (t) => {
  const run = await start(t, [wire.pausedStream('one ', 'two', 700)], { route: 'keepalive = "100ms"' });
  assert.equal(textOf(await collect(await ask(run, { stream: true }, { timeout: 400, maxRetries: 0 }))), 'one two');
});

test('an agent that does not stream comes to its answer', async (t) => {
  const run = await start(t, [wire.answer(null, [bern]), wire.answer(null, [roma, bern]), wire.answer('done')]);
  const asked = [];
  const runner = client(run).chat.completions.runTools({
    model: 'chat',
    messages: MESSAGES,
    tools: [{ type: 'function', function: { ...TOOL.function, parse: JSON.parse, function: ({ city }) => void asked.push(city) ?? 'fine' } }],
  });
  assert.equal(await runner.finalContent(), 'done');
  assert.deepEqual(asked, ['Bern', 'Roma "città"', 'Bern']);
  const prompts = (await run.vendor.requests()).map((request) => JSON.stringify(request.json().messages));
  // Each turn's prompt begins with the one before, or the vendor's cache is lost.
  for (const [n, prompt] of prompts.slice(1).entries()) assert.ok(prompt.startsWith(prompts[n].slice(0, -1)));
});

test('a tool call that breaks off is not shown where calls are held', async (t) => {
  const run = await start(t, [wire.brokenToolStream([bern])], { route: 'commit = "tool_calls"', maxAttempts: 1 });
  const seen = [];
  await assert.rejects(async () => {
    for await (const event of await ask(run, { stream: true, tools: [TOOL] })) seen.push(event);
  });
  assert.equal(argumentsOf(seen), '');
});

test('a held tool call is tried again from the start', async (t) => {
  const run = await start(t, [wire.brokenToolStream([bern]), wire.toolStream([roma])], { route: 'commit = "tool_calls"' });
  const events = await collect(await ask(run, { stream: true, tools: [TOOL] }));
  assert.equal(argumentsOf(events), roma.function.arguments);
});

test('an agent survives a vendor that fails between its turns', async (t) => {
  const replies = [wire.failure(500, 'no'), wire.toolStream([bern]), wire.reset(), wire.toolStream([roma]), wire.failure(503, 'busy'), wire.stream(['done'])];
  const run = await start(t, replies);
  const runner = client(run, { maxRetries: 0 }).chat.completions.runTools({
    model: 'chat',
    messages: MESSAGES,
    stream: true,
    tools: [{ type: 'function', function: { ...TOOL.function, parse: JSON.parse, function: () => 'fine' } }],
  });
  assert.equal(await runner.finalContent(), 'done');
  await until(async () => (await run.vendor.requests()).length === 6);
});
