// deno-lint-ignore-file explicit-function-return-type -- no TypeScript in Node.js 20
/**
 * Serves HTTP/2 on a unix socket. Run by Node.js, which has a complete server.
 *
 * Prints an event per line: `listening`, `connection`, and `request` once a
 * request is complete. Reads a reply per line, and exits when its input ends.
 */

import { createServer } from "node:http2";
import process from "node:process";
import { createInterface } from "node:readline";

const [socketPath] = process.argv.slice(2);
const streams = new Map();

function tell(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

function receive(stream, headers) {
  const chunks = [];
  stream.on("data", (chunk) => chunks.push(chunk));
  stream.on("error", () => {}); // One side has reset it.
  stream.on("end", () => {
    if (stream.aborted) return;
    const id = streams.size;
    streams.set(id, stream);
    const body = Buffer.concat(chunks).toString("base64");
    tell({ event: "request", id, headers, body });
  });
}

function send({ id, headers, body, trailers, drop }) {
  const stream = streams.get(id);
  if (stream.destroyed) return;
  const endStream = body === undefined;
  const waitForTrailers = trailers !== undefined;
  stream.respond(headers, { endStream, waitForTrailers, sendDate: false });
  if (endStream) return;
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  const bytes = Buffer.from(body, "base64");
  if (drop === undefined) return stream.end(bytes);
  stream.write(bytes, () => {
    if (drop === "connection") return stream.session.destroy();
    // RST_STREAM has INTERNAL_ERROR with an error.
    stream.destroy(new Error("INTERNAL_ERROR"));
  });
}

const server = createServer();
server.on("session", (session) => {
  session.on("error", () => {}); // The client speaks something else.
  tell({ event: "connection" });
});
server.on("stream", receive);
server.listen(socketPath, () => tell({ event: "listening" }));

createInterface({ input: process.stdin })
  .on("line", (line) => send(JSON.parse(line)))
  .on("close", () => process.exit());
