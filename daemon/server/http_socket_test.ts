import { assertEquals } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { HttpSocket, type HttpSocketOptions } from "./http_socket.ts";

/** A socket that repeats requests. */
class Scene implements AsyncDisposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly path: string = `${this.#directory}/http.sock`;
  readonly #socket: HttpSocket;
  readonly #server;

  constructor(options: Partial<HttpSocketOptions> = {}) {
    this.#socket = new HttpSocket({
      respond: async (request) => {
        const { pathname } = new URL(request.url);
        const body = await request.text();
        return new Response(`${request.method} ${pathname} ${body}`, {
          headers: { "content-type": "text/plain" },
        });
      },
      log: { warn: () => {} },
      ...options,
    });
    this.#server = this.#socket.listen(this.path);
  }

  /** Sends pieces; returns the answer without its date. */
  async ask(...pieces: readonly string[]): Promise<string> {
    using connection = await Deno.connect({
      transport: "unix",
      path: this.path,
    });
    for (const piece of pieces) {
      try {
        await connection.write(new TextEncoder().encode(piece));
      } catch (error) {
        // It has answered and closed before: the answer can be read.
        if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const decoder = new TextDecoder();
    let text = "";
    const buffer = new Uint8Array(64 * 1024);
    for (let length; (length = await connection.read(buffer)) !== null;) {
      text += decoder.decode(buffer.subarray(0, length), { stream: true });
    }
    return text.replace(/date: .*\r\n/, "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await this.#socket.close();
    await this.#server.closed;
    await Deno.remove(this.#directory, { recursive: true });
  }
}

function answer(body: string): string {
  return "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n" +
    `content-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`;
}

Deno.test("HttpSocket reads requests in any pieces", async () => {
  await using scene = new Scene();
  const request = "POST /cni HTTP/1.1\r\nHost: dummy\r\ncontent-LENGTH: 4\r\n" +
    "\r\nbody";
  assertEquals(await scene.ask(request), answer("POST /cni body"));
  assertEquals(await scene.ask(...request), answer("POST /cni body"));
  assertEquals(
    await scene.ask("GET http://dummy/a?b HTTP/1.0\r\n\r\n"),
    answer("GET /a "),
  );
  // Its length, and not the body.
  const text = answer("HEAD /a ");
  assertEquals(
    await scene.ask("HEAD /a HTTP/1.1\r\n\r\n"),
    text.slice(0, text.indexOf("HEAD")),
  );
  assertEquals(
    await scene.ask(
      "PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
      "x",
    ),
    `HTTP/1.1 100 Continue\r\n\r\n${answer("PUT /a x")}`,
  );
});

const REFUSED: readonly [what: string, request: string, status: number][] = [
  ["what is not HTTP", "hello\r\n\r\n", 400],
  ["another version", "GET / HTTP/2.0\r\n\r\n", 400],
  ["a malformed header", "GET / HTTP/1.1\r\n: a\r\n\r\n", 400],
  [
    "a malformed length",
    "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    400,
  ],
  [
    "a body in chunks",
    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    411,
  ],
  ["a long body", "POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 413],
  ["a long head", `GET / HTTP/1.1\r\nA: ${"a".repeat(20_000)}`, 431],
];

for (const [what, request, status] of REFUSED) {
  Deno.test(`HttpSocket refuses ${what}`, async () => {
    await using scene = new Scene({ maxBody: 99 });
    const [line] = (await scene.ask(request)).split("\r\n");
    assertEquals(line?.split(" ")[1], String(status));
  });
}

Deno.test("HttpSocket closes a connection whose request does not arrive in time", async () => {
  await using scene = new Scene({ requestTimeoutMs: 10 });
  const [line] = (await scene.ask("GET / HT")).split("\r\n");
  assertEquals(line, "HTTP/1.1 408 Request Timeout");
});

Deno.test("HttpSocket extends the time of requests after the event loop was blocked", async () => {
  const { timeout } = AbortSignal, { now } = performance;
  const timers: AbortController[] = [];
  let nowMs = 0;
  performance.now = (): number => nowMs;
  AbortSignal.timeout = (): AbortSignal => {
    const timer = new AbortController();
    timers.push(timer);
    return timer.signal;
  };
  /** The limit is over at a time; returns whether a new one has begun. */
  const endLimit = (atMs: number): boolean => {
    const { length } = timers;
    nowMs = atMs;
    timers.at(-1)?.abort();
    return timers.length > length;
  };
  try {
    await using scene = new Scene({ requestTimeoutMs: 1000 });
    const asked = scene.ask("GET / HT");
    await eventually("it is connected", () => timers.length === 1);
    assertEquals(endLimit(5000), true);
    assertEquals(endLimit(6000), false);
    const [line] = (await asked).split("\r\n");
    assertEquals(line, "HTTP/1.1 408 Request Timeout");
    performance.now = now;
    AbortSignal.timeout = timeout;
  } finally {
    performance.now = now;
    AbortSignal.timeout = timeout;
  }
});

Deno.test("HttpSocket responds with 500 if the handler fails", async () => {
  await using scene = new Scene({
    respond: () => Promise.reject(new Error("no")),
  });
  const [line] = (await scene.ask("GET / HTTP/1.1\r\n\r\n")).split("\r\n");
  assertEquals(line, "HTTP/1.1 500 Internal Server Error");
});

Deno.test("HttpSocket aborts the signal when the caller disconnects", async () => {
  const asked = Promise.withResolvers<AbortSignal>();
  const aborted = Promise.withResolvers<void>();
  await using scene = new Scene({
    respond: async (_request, { signal }) => {
      signal.addEventListener("abort", () => aborted.resolve());
      asked.resolve(signal);
      await aborted.promise;
      return new Response();
    },
  });
  const connection = await Deno.connect({
    transport: "unix",
    path: scene.path,
  });
  const bytes = new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n");
  await connection.write(bytes);
  assertEquals((await asked.promise).aborted, false);
  connection.close();
  await aborted.promise;
});
