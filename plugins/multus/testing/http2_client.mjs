// deno-lint-ignore-file explicit-function-return-type -- no TypeScript in Node.js 20
/**
 * Sends requests over one HTTP/2 connection to a unix socket, one at a time,
 * and prints how the last one ended. Run by Node.js.
 *
 * Its argument is `{ socketPath, requests, timeoutMs }` in JSON. A request with
 * `cancel` is reset before its end.
 */

import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import process from "node:process";

const { socketPath, requests, timeoutMs } = JSON.parse(process.argv[2]);

function request(client, { headers, body, cancel }) {
  const ending = { body: [] };
  const startMs = performance.now();
  const aborted = new AbortController();
  const stream = client.request(headers, { signal: aborted.signal });
  stream.on("response", (headers) => ending.headers = headers);
  stream.on("trailers", (trailers) => ending.trailers = trailers);
  stream.on("data", (chunk) => ending.body.push(...chunk));
  stream.on("error", (error) => ending.error = error.message);
  // After the headers, since close() would send END_STREAM before RST_STREAM.
  if (cancel) stream.write(Buffer.of(0), () => aborted.abort());
  else stream.end(Buffer.from(body));
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ ...ending, error: "timeout" });
    }, timeoutMs);
    stream.on("close", () => {
      clearTimeout(timer);
      const resetBy = stream.rstCode || undefined;
      resolve({ ...ending, resetBy, tookMs: performance.now() - startMs });
    });
  });
}

const createConnection = () => connect(socketPath);
const client = connectHttp2("http://localhost", { createConnection });
client.on("error", () => {}); // The streams report it.
let ending;
for (const each of requests) ending = await request(client, each);
process.stdout.write(JSON.stringify(ending), () => process.exit());
