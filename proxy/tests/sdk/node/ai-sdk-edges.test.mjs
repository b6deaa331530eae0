// Vercel's AI SDK where things go wrong, and what else it can do than text: objects, many vectors.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embed, embedMany, generateObject, generateText, streamObject, streamText, stepCountIs, tool } from 'ai';
import { z } from 'zod';

import { KEY, newest, start, TENANT, until } from './harness.mjs';
import * as wire from './wire.mjs';

const bern = wire.toolCall('call_1', 'weather', { city: 'Bern' });
const roma = wire.toolCall('call_2', 'weather', { city: 'Roma "città"' });
const PLACE = z.object({ city: z.string() });

const openai = ({ gateway }, apiKey = 'any') => createOpenAI({ baseURL: gateway.baseURL, apiKey });
const compatible = ({ gateway }, apiKey = 'any') =>
  createOpenAICompatible({ name: 'whippletree', baseURL: gateway.baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true });

const PROVIDERS = [
  ['@ai-sdk/openai', (run, key, model = 'chat') => openai(run, key).chat(model), (run, model) => openai(run).embedding(model)],
  [
    '@ai-sdk/openai-compatible',
    (run, key, model = 'chat') => compatible(run, key).chatModel(model),
    (run, model) => compatible(run).textEmbeddingModel(model),
  ],
];

/** The error that a call ends with: where the SDK sent more than once, that of its last try. */
const failed = (call) => call.then(() => assert.fail('it was answered'), (error) => error.lastError ?? error);
const sends = async (run) => (await run.vendor.requests()).length;

/** A stream's text, and the errors that came in it. */
async function read(result) {
  const errors = [];
  let text = '';
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta') text += part.text;
    if (part.type === 'error') errors.push(part.error);
  }
  return { text, errors };
}

for (const [name, model, embedding] of PROVIDERS) {
  test(`${name}: a stream ends with its usage`, async (t) => {
    const run = await start(t, [wire.stream(['ok'])]);
    const result = streamText({ model: model(run), prompt: 'Say ok.' });
    assert.equal((await read(result)).text, 'ok');
    assert.equal((await result.usage).inputTokens, 12);
    assert.equal((await newest(run)).usage.output_tokens, 5);
  });

  test(`${name}: an agent that does not stream comes to its answer`, async (t) => {
    const run = await start(t, [wire.answer(null, [bern]), wire.answer(null, [roma, bern]), wire.answer('done')]);
    const asked = [];
    const weather = tool({ inputSchema: PLACE, execute: ({ city }) => (asked.push(city), 'fine') });
    const { text } = await generateText({ model: model(run), prompt: 'Weather?', tools: { weather }, stopWhen: stepCountIs(5) });
    assert.equal(text, 'done');
    assert.deepEqual(asked, ['Bern', 'Roma "città"', 'Bern']);
    const prompts = (await run.vendor.requests()).map((request) => JSON.stringify(request.json().messages));
    for (const [n, prompt] of prompts.slice(1).entries()) assert.ok(prompt.startsWith(prompts[n].slice(0, -1)));
  });

  test(`${name}: a tool call that breaks off is tried again from the start where calls are held`, async (t) => {
    const run = await start(t, [wire.brokenToolStream([bern]), wire.toolStream([roma])], { route: 'commit = "tool_calls"' });
    const result = streamText({ model: model(run), prompt: 'Weather?', tools: { weather: tool({ inputSchema: PLACE }) } });
    assert.deepEqual((await read(result)).errors, []);
    assert.deepEqual((await result.toolCalls).map((call) => call.input), [{ city: 'Roma "città"' }]);
  });

  test(`${name}: the schema of an object reaches the vendor`, async (t) => {
    const run = await start(t, [wire.answer('{"city":"Bern"}')]);
    const { object } = await generateObject({ model: model(run), schema: PLACE, prompt: 'A city.' });
    assert.deepEqual(object, { city: 'Bern' });
    const [request] = await run.vendor.requests();
    assert.equal(request.json().response_format.json_schema.schema.properties.city.type, 'string');
  });

  test(`${name}: an object is streamed`, async (t) => {
    const run = await start(t, [wire.stream(['{"ci', 'ty":"Be', 'rn"}'])]);
    const result = streamObject({ model: model(run), schema: PLACE, prompt: 'A city.' });
    let last;
    for await (const part of result.partialObjectStream) last = part;
    assert.deepEqual(last, { city: 'Bern' });
    assert.deepEqual(await result.object, { city: 'Bern' });
  });

  test(`${name}: many texts are embedded in their order`, async (t) => {
    const run = await start(t, [wire.embeddings([[0.5, -1], [0.25, 2]], { encoded: false })]);
    const { embeddings, usage } = await embedMany({ model: embedding(run, 'vendor/embed-test'), values: ['a', 'b'] });
    assert.deepEqual(embeddings, [[0.5, -1], [0.25, 2]]);
    assert.equal(usage.tokens, 7);
    assert.equal((await newest(run)).usage.input_tokens, 7);
  });

  test(`${name}: a failing embedding is sent no more than the limit`, async (t) => {
    const route = '[routes.embed]\ntargets = ["vendor/embed-test"]\nretry = { max_attempts = 2, base = "10ms", cap = "20ms" }';
    const run = await start(t, [wire.failure(500, 'boom')], { rest: route });
    const error = await failed(embed({ model: embedding(run, 'embed'), value: 'a' }));
    assert.equal(error.statusCode, 424);
    assert.ok((await sends(run)) <= 2);
  });

  test(`${name}: a key that is not known is refused and not repeated`, async (t) => {
    const run = await start(t, [wire.answer('ok')], { rest: TENANT });
    const error = await failed(generateText({ model: model(run, 'sk-not-known-0123456789abcdef'), prompt: 'Say ok.' }));
    assert.ok(APICallError.isInstance(error));
    assert.deepEqual([error.statusCode, error.isRetryable], [401, false]);
    assert.equal((await generateText({ model: model(run, KEY), prompt: 'Say ok.' })).text, 'ok');
  });

  test(`${name}: a misspelt model is not found and the nearest name is told`, async (t) => {
    const run = await start(t, [wire.answer('ok')]);
    const error = await failed(generateText({ model: model(run, 'any', 'chta'), prompt: 'Say ok.' }));
    assert.equal(error.statusCode, 404);
    assert.match(error.message, /"chat"/);
  });

  test(`${name}: the vendor's complaint about a request is passed on`, async (t) => {
    const complaint = "Unsupported value: 'temperature' must be between 0 and 2.";
    const run = await start(t, [wire.failure(400, complaint, { type: 'invalid_request_error' })]);
    const error = await failed(generateText({ model: model(run), prompt: 'Say ok.' }));
    assert.equal(error.statusCode, 400);
    assert.ok(error.message.includes(complaint));
    assert.equal(await sends(run), 1);
  });

  test(`${name}: a prompt that is too long is told as such`, async (t) => {
    const text = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
    const run = await start(t, [wire.failure(400, text, { type: 'invalid_request_error', code: 'context_length_exceeded' })]);
    const error = await failed(generateText({ model: model(run), prompt: 'Say ok.' }));
    assert.equal(error.data.error.code, 'context_length_exceeded');
    assert.match(error.message, /maximum context length/);
  });

  test(`${name}: a vendor out of quota is not asked again, and neither is the gateway`, async (t) => {
    const reply = wire.failure(429, 'You exceeded your current quota.', { type: 'insufficient_quota', code: 'insufficient_quota' });
    const run = await start(t, [reply]);
    const error = await failed(generateText({ model: model(run), prompt: 'Say ok.' }));
    assert.equal(error.statusCode, 424);
    assert.equal(error.responseHeaders['x-wt-status'], '429');
    assert.equal(error.data.error.code, 'insufficient_quota');
    assert.equal((await run.gateway.read('/admin/v1/requests')).requests.length, 1);
  });

  test(`${name}: a stream that is cut ends in an error, not in an answer`, async (t) => {
    const run = await start(t, [wire.stream(['one '], { done: false, end: 'cut', pauseMs: 20 })]);
    const { text, errors } = await read(streamText({ model: model(run), prompt: 'Count.', onError: () => {} }));
    assert.equal(text, 'one ');
    assert.equal(errors.length, 1);
    assert.equal(await sends(run), 1);
  });

  test(`${name}: a stream cut before the first text is tried again unseen`, async (t) => {
    const run = await start(t, [wire.stream([], { done: false, end: 'cut' }), wire.stream(['o', 'k'])]);
    assert.deepEqual(await read(streamText({ model: model(run), prompt: 'Say ok.' })), { text: 'ok', errors: [] });
    assert.equal(await sends(run), 2);
  });

  test(`${name}: silence in a stream is bridged`, async (t) => {
    const run = await start(t, [wire.pausedStream('one ', 'two', 500)], { route: 'keepalive = "50ms"' });
    assert.deepEqual(await read(streamText({ model: model(run), prompt: 'Count.' })), { text: 'one two', errors: [] });
  });

  test(`${name}: a program that gives up cancels the vendor's work`, async (t) => {
    const run = await start(t, [wire.silence()]);
    const call = generateText({ model: model(run), prompt: 'Say ok.', abortSignal: AbortSignal.timeout(500) });
    assert.equal((await failed(call)).name, 'TimeoutError');
    await until(async () => (await run.vendor.requests())[0].disconnected);
    assert.equal(await sends(run), 1);
  });

  test(`${name}: a program that leaves a stream cancels the vendor's work`, async (t) => {
    const run = await start(t, [wire.stream(['one '], { done: false, end: 'hang' })]);
    const leave = new AbortController();
    const { textStream } = streamText({ model: model(run), prompt: 'Count.', abortSignal: leave.signal, onError: () => {} });
    for await (const piece of textStream) if (piece) leave.abort();
    await until(async () => (await run.vendor.requests())[0].disconnected);
  });

  test(`${name}: a vendor that is silent is given up in time, and asked once`, async (t) => {
    const run = await start(t, [wire.silence()], { provider: 'timeouts = { first_byte = "200ms" }', retry: 'ambiguous = "never"' });
    const error = await failed(generateText({ model: model(run), prompt: 'Say ok.' }));
    assert.equal(error.statusCode, 424);
    assert.equal(error.responseHeaders['x-wt-status'], '504');
    assert.equal(await sends(run), 1);
  });

  test(`${name}: a vendor that recovers is served within one call`, async (t) => {
    const run = await start(t, [wire.failure(500, 'boom'), wire.failure(503, 'busy'), wire.answer('ok')]);
    assert.equal((await generateText({ model: model(run), prompt: 'Say ok.' })).text, 'ok');
    assert.equal((await run.gateway.read('/admin/v1/requests')).requests.length, 1);
  });
}
