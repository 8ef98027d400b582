// An OpenAI-compatible chat server over llama.cpp, for end-to-end tests on one machine.
// usage: node server.mjs --model tickets.gguf --port 0   (prints "listening on 127.0.0.1:PORT")
// Answers POST /v1/chat/completions (stream and not, max_tokens, temperature, top_p, seed, response_format json_schema) and GET /v1/models.
import http from "node:http";
import path from "node:path";
import {parseArgs} from "node:util";
import {getLlama, LlamaCompletion} from "node-llama-cpp";

const {values: opt} = parseArgs({options: {model: {type: "string"}, port: {type: "string", default: "0"}, threads: {type: "string", default: "1"}}});
if (!opt.model) { console.error("server: --model is required"); process.exit(2); }
const name = path.basename(opt.model, ".gguf");
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: Number(opt.threads)});
const model = await llama.loadModel({modelPath: opt.model});
const context = await model.createContext({contextSize: 256, threads: Number(opt.threads)});
const sequence = context.getSequence();
const completion = new LlamaCompletion({contextSequence: sequence});
let turn = Promise.resolve(); // one sequence: answers are given one after the other

const prompt = (messages) => messages.map((m) => `<|im_start|>${m.role}\n${m.content}<|im_end|>\n`).join("") + "<|im_start|>assistant\n";
const finish = (reason) => (reason === "maxTokens" ? "length" : "stop");
const fail = (res, status, type, message) => { res.writeHead(status, {"content-type": "application/json"}); res.end(JSON.stringify({error: {message, type, code: null}})); };

async function answer(req, res, body) {
  let ask;
  try { ask = JSON.parse(body); } catch (e) { return fail(res, 400, "invalid_request_error", String(e)); }
  if (!Array.isArray(ask.messages) || ask.messages.length === 0) return fail(res, 400, "invalid_request_error", "messages is required");
  const tokens = model.tokenize(prompt(ask.messages), true);
  if (tokens.length > 240) return fail(res, 400, "invalid_request_error", `context_length_exceeded: ${tokens.length} tokens, at most 240`);
  await sequence.clearHistory();
  let count = 0;
  const options = {maxTokens: ask.max_tokens ?? ask.max_completion_tokens ?? 80, temperature: ask.temperature ?? 0, topP: ask.top_p, seed: ask.seed, onToken: (t) => (count += t.length)};
  if (ask.response_format?.type === "json_schema") options.grammar = await llama.createGrammarForJsonSchema(ask.response_format.json_schema.schema);
  const head = {id: "chatcmpl-" + Date.now(), created: Math.floor(Date.now() / 1000), model: name};
  const usage = () => ({prompt_tokens: tokens.length, completion_tokens: count, total_tokens: tokens.length + count});
  if (!ask.stream) {
    const out = await completion.generateCompletionWithMeta(tokens, options);
    res.writeHead(200, {"content-type": "application/json"});
    return res.end(JSON.stringify({...head, object: "chat.completion", choices: [{index: 0, message: {role: "assistant", content: out.response}, finish_reason: finish(out.metadata.stopReason)}], usage: usage()}));
  }
  res.writeHead(200, {"content-type": "text/event-stream"});
  const send = (choices, extra = {}) => res.write("data: " + JSON.stringify({...head, object: "chat.completion.chunk", choices, ...extra}) + "\n\n");
  send([{index: 0, delta: {role: "assistant"}, finish_reason: null}]);
  const out = await completion.generateCompletionWithMeta(tokens, {...options, onTextChunk: (c) => send([{index: 0, delta: {content: c}, finish_reason: null}])});
  send([{index: 0, delta: {}, finish_reason: finish(out.metadata.stopReason)}]);
  if (ask.stream_options?.include_usage) send([], {usage: usage()});
  res.end("data: [DONE]\n\n");
}

const server = http.createServer((req, res) => {
  if (req.method === "GET" && req.url === "/v1/models") { res.writeHead(200, {"content-type": "application/json"}); return res.end(JSON.stringify({object: "list", data: [{id: name, object: "model"}]})); }
  if (req.method !== "POST" || req.url !== "/v1/chat/completions") return fail(res, 404, "invalid_request_error", "not found");
  let body = "";
  req.on("data", (d) => (body += d));
  req.on("end", () => { turn = turn.then(() => answer(req, res, body)).catch((e) => { if (!res.headersSent) fail(res, 500, "server_error", String(e)); else res.destroy(); }); });
});
server.listen(Number(opt.port), "127.0.0.1", () => console.log(`listening on 127.0.0.1:${server.address().port}`));
