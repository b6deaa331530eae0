// The official OpenAI SDK for Node as a client of the gateway.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI, { toFile } from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

import { start, until, VENDOR_KEY } from './harness.mjs';
import * as wire from './wire.mjs';

const MESSAGES = [
  { role: 'system', content: 'Answer in one word.' },
  { role: 'user', content: 'Say ok.' },
];
const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];
// Below the three sends that the SDK makes by itself.
const LIMIT = 2;

const client = ({ gateway }, settings = {}) =>
  new OpenAI({ baseURL: gateway.baseURL, apiKey: 'sk-client-secret', timeout: 20_000, ...settings });

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

const textOf = (events) => events.map((event) => event.choices[0]?.delta?.content ?? '').join('');

test('a whole answer arrives with its usage, and says who served it', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  const { data, response } = await client(run).chat.completions.create({ model: 'chat', messages: MESSAGES }).withResponse();
  assert.equal(data.choices[0].message.content, 'ok');
  assert.equal(data.usage.prompt_tokens, 12);
  assert.equal(response.headers.get('x-wt-target'), 'vendor/gpt-test');
  const [request] = await run.vendor.requests();
  assert.equal(request.headers.authorization, `Bearer ${VENDOR_KEY}`);
  assert.deepEqual(request.json(), { model: 'gpt-test', messages: MESSAGES });
});

test('a stream without a wish for usage holds no chunk without choices', async (t) => {
  const run = await start(t, [wire.stream(['one ', 'two'])]);
  const events = await collect(await client(run).chat.completions.create({ model: 'chat', messages: MESSAGES, stream: true }));
  assert.equal(textOf(events), 'one two');
  assert.ok(events.every((event) => event.choices.length === 1 && !event.usage));
});

test('a stream with a wish for usage ends with it, once', async (t) => {
  const run = await start(t, [wire.stream(['ok'])]);
  const events = await collect(
    await client(run).chat.completions.create({
      model: 'chat', messages: MESSAGES, stream: true, stream_options: { include_usage: true },
    }),
  );
  assert.equal(events.filter((event) => event.usage).length, 1);
  assert.equal(events.at(-1).usage.prompt_tokens, 12);
});

test('an agent of several turns comes to its answer', async (t) => {
  const bern = wire.toolCall('call_1', 'weather', { city: 'Bern' });
  const roma = wire.toolCall('call_2', 'weather', { city: 'Roma "città"' });
  const run = await start(t, [wire.toolStream([bern]), wire.toolStream([roma, bern]), wire.stream(['done'])]);
  const asked = [];
  const runner = client(run).chat.completions.runTools({
    model: 'chat',
    messages: MESSAGES,
    stream: true,
    tools: [
      {
        type: 'function',
        function: {
          ...TOOLS[0].function,
          parse: JSON.parse,
          function: ({ city }) => {
            asked.push(city);
            return `3 degrees in ${city}`;
          },
        },
      },
    ],
  });
  assert.equal(await runner.finalContent(), 'done');
  assert.deepEqual(asked, ['Bern', 'Roma "città"', 'Bern']);
  const requests = await run.vendor.requests();
  assert.equal(requests.length, 3);
  assert.deepEqual(requests[2].json().messages.slice(0, 4), requests[1].json().messages);
});

test('structured output is parsed by the SDK', async (t) => {
  const run = await start(t, [wire.answer('{"city":"Bern"}')]);
  const answer = await client(run).chat.completions.parse({
    model: 'chat', messages: MESSAGES, response_format: zodResponseFormat(z.object({ city: z.string() }), 'place'),
  });
  assert.deepEqual(answer.choices[0].message.parsed, { city: 'Bern' });
});

test('embeddings come back as numbers though the SDK asks for base64', async (t) => {
  const run = await start(t, [wire.embeddings([[0.5, -1]])]);
  const answer = await client(run).embeddings.create({ model: 'vendor/embed-test', input: 'a' });
  assert.deepEqual(answer.data[0].embedding, [0.5, -1]);
});

test('the list of models names the routes', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  const names = [];
  for await (const model of client(run).models.list()) names.push(model.id);
  assert.ok(names.includes('chat'));
});

test('a response passes through whole and streamed', async (t) => {
  const run = await start(t, [wire.json(wire.response('ok')), wire.responseStream(['o', 'k'])]);
  const whole = await client(run).responses.create({ model: 'chat', input: 'Say ok.' });
  assert.equal(whole.output_text, 'ok');
  const events = await collect(await client(run).responses.create({ model: 'chat', input: 'Say ok.', stream: true }));
  assert.equal(events.at(-1).type, 'response.completed');
  const texts = events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta);
  assert.equal(texts.join(''), 'ok');
});

test('an uploaded file reaches the vendor', async (t) => {
  const stored = { id: 'file-1', object: 'file', bytes: 5, created_at: 1, filename: 'a.jsonl', purpose: 'batch', status: 'processed' };
  const run = await start(t, [wire.json(stored)]);
  const file = await toFile(Buffer.from('{"a":1}\n'), 'a.jsonl');
  assert.equal((await client(run).files.create({ file, purpose: 'batch' })).id, 'file-1');
  const [request] = await run.vendor.requests();
  assert.equal(request.target, '/v1/files');
  assert.ok(request.body.includes('{"a":1}\n'));
});

for (const [reply, status] of [
  [wire.failure(500, 'boom'), 502],
  [wire.failure(503, 'busy'), 503],
  [wire.failure(429, 'slow down', { code: 'rate_limit_exceeded' }), 429],
]) {
  test(`a vendor that keeps answering ${reply.status} is sent no more than the limit`, async (t) => {
    const run = await start(t, [reply], { maxAttempts: LIMIT });
    const ask = client(run).chat.completions.create({ model: 'chat', messages: MESSAGES });
    await assert.rejects(ask, (error) => error instanceof OpenAI.APIError && error.status === status);
    const sends = (await run.vendor.requests()).length;
    assert.ok(sends >= 1 && sends <= LIMIT, `${sends} sends`);
  });
}

test('a vendor that is not there is a 502, asked for once', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  await run.vendor.stop();
  const ask = client(run).chat.completions.create({ model: 'chat', messages: MESSAGES });
  await assert.rejects(ask, (error) => error.status === 502 && error.headers.get('x-should-retry') === 'false');
  assert.equal((await run.gateway.read('/admin/v1/requests')).requests.length, 1);
});

test('a misspelt model is not found and the nearest name is told', async (t) => {
  const run = await start(t, [wire.answer('ok')]);
  const ask = client(run).chat.completions.create({ model: 'chta', messages: MESSAGES });
  await assert.rejects(ask, (error) => error instanceof OpenAI.NotFoundError && /\bchat\b/.test(error.message));
});

test("the vendor's complaint about a request is passed on", async (t) => {
  const complaint = "Unsupported value: 'temperature' must be between 0 and 2.";
  const run = await start(t, [wire.failure(400, complaint, { type: 'invalid_request_error' })]);
  const ask = client(run).chat.completions.create({ model: 'chat', messages: MESSAGES, temperature: 9 });
  await assert.rejects(ask, (error) => error instanceof OpenAI.BadRequestError && error.message.includes(complaint));
  assert.equal((await run.vendor.requests()).length, 1);
});

test('a stream that is cut ends in an error, not in an answer', async (t) => {
  const run = await start(t, [wire.stream(['one '], { done: false, end: 'cut', pauseMs: 20 })]);
  const stream = await client(run).chat.completions.create({ model: 'chat', messages: MESSAGES, stream: true });
  const seen = [];
  await assert.rejects(async () => {
    for await (const event of stream) seen.push(event);
  }, (error) => error.code === 'stream_interrupted');
  assert.equal(textOf(seen), 'one ');
});

test("a client that aborts a stream cancels the vendor's work", async (t) => {
  const run = await start(t, [wire.stream(['one '], { done: false, end: 'hang' })]);
  const stream = await client(run).chat.completions.create({ model: 'chat', messages: MESSAGES, stream: true });
  for await (const event of stream) {
    if (event.choices[0].delta.content) break;
  }
  await until(async () => (await run.vendor.requests())[0].disconnected);
});

test('a client that gives up before the first byte asks the vendor once', async (t) => {
  const run = await start(t, [{ status: 0, end: 'hang' }]);
  const ask = client(run, { timeout: 500, maxRetries: 0 }).chat.completions.create({ model: 'chat', messages: MESSAGES });
  await assert.rejects(ask, OpenAI.APIConnectionTimeoutError);
  await until(async () => (await run.vendor.requests())[0].disconnected);
});
