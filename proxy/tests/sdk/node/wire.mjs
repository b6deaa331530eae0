// Answers as a vendor with OpenAI's dialect writes them, for the scripted vendor to play.

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };
const MODEL = 'gpt-test';

export const usage = (prompt = 12, completion = 5) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
});

export const json = (body, status = 200) => ({ status, headers: JSON_TYPE, body });

export function answer(content, toolCalls) {
  const message = { role: 'assistant', content, ...(toolCalls && { tool_calls: toolCalls }) };
  const choice = { index: 0, message, finish_reason: toolCalls ? 'tool_calls' : 'stop' };
  return json({
    id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: MODEL, choices: [choice], usage: usage(),
  });
}

export const toolCall = (id, name, input) => ({
  id, type: 'function', function: { name, arguments: JSON.stringify(input) },
});

export function chunk(delta, finish = null, tokens = undefined) {
  const choices = tokens ? [] : [{ index: 0, delta, finish_reason: finish }];
  const body = {
    id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: MODEL, choices, ...(tokens && { usage: tokens }),
  };
  return `data: ${JSON.stringify(body)}\n\n`;
}

const CLOSING = (reason) => [chunk({}, reason), chunk(null, null, usage()), 'data: [DONE]\n\n'];

export function stream(texts, { end = 'clean', done = true, pauseMs = 0 } = {}) {
  const writes = [chunk({ role: 'assistant', content: '' })];
  for (const text of texts) {
    writes.push(chunk({ content: text }));
    if (pauseMs) writes.push({ sleep_ms: pauseMs });
  }
  return { status: 200, headers: EVENTS, writes: done ? [...writes, ...CLOSING('stop')] : writes, end };
}

export function toolStream(calls) {
  const writes = [chunk({ role: 'assistant', content: null })];
  calls.forEach((call, index) => {
    const { name, arguments: text } = call.function;
    writes.push(chunk({ tool_calls: [{ ...call, index, function: { name, arguments: '' } }] }));
    for (let at = 0; at < text.length; at += 3) {
      writes.push(chunk({ tool_calls: [{ index, function: { arguments: text.slice(at, at + 3) } }] }));
    }
  });
  return { status: 200, headers: EVENTS, writes: [...writes, ...CLOSING('tool_calls')] };
}

export const failure = (status, message, more = {}) => ({
  status,
  headers: { ...JSON_TYPE, ...more.headers },
  body: { error: { message, type: more.type ?? 'server_error', param: more.param ?? null, code: more.code ?? null } },
});

/** The vendor's word that a key's rate is used up. */
export const limited = (headers) => failure(429, 'slow down', { type: 'rate_limit_error', code: 'rate_limit_exceeded', headers });

export const silence = () => ({ status: 0, end: 'hang' });

/** A tool's call that breaks off within its arguments. */
export function brokenToolStream(calls) {
  const { writes, ...rest } = toolStream(calls);
  return { ...rest, writes: writes.slice(0, 4), end: 'cut' };
}

/** A stream with a pause in the middle. */
export function pausedStream(before, after, ms) {
  const { writes, ...rest } = stream([before, after]);
  return { ...rest, writes: [...writes.slice(0, 2), { sleep_ms: ms }, ...writes.slice(2)] };
}

export const reset = () => ({ status: 0, end: 'reset' });

export function response(text) {
  const content = [{ type: 'output_text', text, annotations: [] }];
  return {
    id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: MODEL,
    output: [{ type: 'message', id: 'msg_1', status: 'completed', role: 'assistant', content }],
    parallel_tool_calls: true, tool_choice: 'auto', tools: [], error: null, incomplete_details: null,
    instructions: null, metadata: {},
    usage: {
      input_tokens: 12, input_tokens_details: { cached_tokens: 0 },
      output_tokens: 5, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 17,
    },
  };
}

export function responseStream(texts) {
  const whole = response(texts.join(''));
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };
  const item = { ...whole.output[0], status: 'in_progress', content: [] };
  const events = [
    { type: 'response.created', response: { ...whole, status: 'in_progress', output: [], usage: null } },
    { type: 'response.output_item.added', output_index: 0, item },
    ...texts.map((delta) => ({ type: 'response.output_text.delta', ...place, delta, logprobs: [] })),
    { type: 'response.output_item.done', output_index: 0, item: whole.output[0] },
    { type: 'response.completed', response: whole },
  ];
  const writes = events.map((event, n) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: n })}\n\n`);
  return { status: 200, headers: EVENTS, writes };
}

/** An embeddings answer, as base64 of little-endian floats where the client asks for that. */
export function embeddings(vectors, { encoded = true } = {}) {
  const encode = (vector) => (encoded ? Buffer.from(Float32Array.from(vector).buffer).toString('base64') : vector);
  const data = vectors.map((vector, index) => ({ object: 'embedding', index, embedding: encode(vector) }));
  return json({ object: 'list', data, model: 'embed-test', usage: { prompt_tokens: 7, total_tokens: 7 } });
}
