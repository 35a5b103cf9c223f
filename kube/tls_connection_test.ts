import { assertEquals } from "@std/assert";
import { deadline } from "../cni/deadline.ts";
import { readHead, say } from "../tests/_harness/talk_server.ts";
import { TlsServer } from "../tests/_harness/tls_server.ts";
import { TlsTransport } from "./tls_transport.ts";

const PATIENCE_MS = 5000;

/** Answers a request. */
type Reply = (connection: Deno.TlsConn, head: string) => Promise<void>;

/**
 * A server that answers the first request with `reply`, and the others
 * properly.
 */
class Scene implements AsyncDisposable {
  readonly #server: TlsServer;
  readonly #transport: TlsTransport;
  /** Resolves when the first request is answered. */
  readonly answered: Promise<void>;

  private constructor(server: TlsServer, answered: Promise<void>) {
    this.#server = server;
    this.answered = answered;
    this.#transport = this.#open();
  }

  static async start(reply: Reply): Promise<Scene> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const server = await TlsServer.start(async (connection, index) => {
      for (let isFirst = index === 0;; isFirst = false) {
        const head = await readHead(connection);
        if (head === "") return;
        const [, path] = head.split(" ");
        if (!isFirst) await say(connection, ok(`${path} on ${index}`));
        else await reply(connection, head).finally(resolve);
      }
    });
    return new Scene(server, promise);
  }

  #open(): TlsTransport {
    return new TlsTransport({ caCerts: [this.#server.caPem] });
  }

  /** Sends a request. @returns The status and the text of the answer */
  async ask(path: string, body?: string): Promise<[number, string]> {
    return await this.#ask(this.#transport, path, body);
  }

  async #ask(
    transport: TlsTransport,
    path: string,
    body?: string,
  ): Promise<[number, string]> {
    const answer = await transport.send({
      method: body === undefined ? "GET" : "PATCH",
      url: this.#server.url + path,
      headers: [],
      ...body === undefined ? {} : { body },
    }, deadline(PATIENCE_MS));
    return [answer.status, await new Response(answer.body).text()];
  }

  /**
   * Waits until everything sent has arrived, because something sent later has.
   */
  async settle(): Promise<void> {
    await this.answered;
    using other = this.#open();
    await this.#ask(other, "/other");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#transport[Symbol.dispose]();
    await this.#server[Symbol.asyncDispose]();
  }
}

function answer(status: string, text: string): string {
  const head = `HTTP/1.1 ${status}\r\nContent-Length: ${text.length}`;
  return `${head}\r\n\r\n${text}`;
}

function ok(text: string): string {
  return answer("200 OK", text);
}

/** Sends texts one after the other. */
function sayAll(...what: readonly string[]): Reply {
  return async (connection) => {
    for (const text of what) await say(connection, text);
  };
}

Deno.test("TlsConnection is used again if nothing but the answer has come", async () => {
  await using scene = await Scene.start(sayAll(ok("one")));
  assertEquals(await scene.ask("/1"), [200, "one"]);
  await scene.settle();
  assertEquals(await scene.ask("/2"), [200, "/2 on 0"]);
});

Deno.test("TlsConnection is not used again if more has come than the answer", async (t) => {
  const rows: [string, string][] = [
    ["another answer", ok("one") + ok("evil")],
    ["half of one", `${ok("one")}HTTP/1.1 200 OK\r\nContent-Length: `],
    ["a longer body than it says", `${ok("one")}more`],
    [
      "what comes after chunks",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
      `3\r\none\r\n0\r\n\r\n${ok("evil")}`,
    ],
  ];
  for (const [name, said] of rows) {
    await t.step(name, async () => {
      await using scene = await Scene.start(sayAll(said));
      assertEquals(await scene.ask("/1"), [200, "one"]);
      assertEquals(await scene.ask("/2"), [200, "/2 on 1"]);
      assertEquals(await scene.ask("/3"), [200, "/3 on 1"]);
    });
  }
  await t.step("a body where there is none", async () => {
    const said = `HTTP/1.1 204 x\r\n\r\n${ok("evil")}`;
    await using scene = await Scene.start(sayAll(said));
    assertEquals(await scene.ask("/1"), [204, ""]);
    assertEquals(await scene.ask("/2"), [200, "/2 on 1"]);
  });
  await t.step("a body where there is none, which is yet to come", async () => {
    const said = "HTTP/1.1 204 x\r\nContent-Length: 4\r\n\r\n";
    await using scene = await Scene.start(sayAll(said));
    assertEquals(await scene.ask("/1"), [204, ""]);
    assertEquals(await scene.ask("/2"), [200, "/2 on 1"]);
  });
});

Deno.test("TlsConnection is not used again if something comes before it is asked", async (t) => {
  const rows: [string, Reply][] = [
    ["another answer", sayAll(ok("evil"))],
    ["a farewell", sayAll(answer("408 Request Timeout", ""))],
    ["the end", (connection) => Promise.resolve(connection.close())],
  ];
  for (const [name, goOn] of rows) {
    await t.step(name, async () => {
      const read = Promise.withResolvers<void>();
      await using scene = await Scene.start(async (connection, head) => {
        await say(connection, ok("one"));
        await read.promise;
        await goOn(connection, head);
      });
      using _ = defer(read.resolve);
      assertEquals(await scene.ask("/1"), [200, "one"]);
      read.resolve();
      await scene.settle();
      assertEquals(await scene.ask("/2"), [200, "/2 on 2"]);
    });
  }
});

Deno.test("TlsConnection is read before all is written", async (t) => {
  await t.step("and used again if all was", async () => {
    const body = "x".repeat(100_000);
    await using scene = await Scene.start(async (connection, head) => {
      await say(connection, answer("401 Unauthorized", "no"));
      const start = head.indexOf("\r\n\r\n") + 4;
      await skip(connection, body.length - (head.length - start));
    });
    assertEquals(await scene.ask("/1", body), [401, "no"]);
    assertEquals(await scene.ask("/2"), [200, "/2 on 0"]);
  });
  await t.step("and not used again otherwise", async () => {
    const ended = Promise.withResolvers<void>();
    await using scene = await Scene.start(async (connection) => {
      await say(connection, answer("413 Content Too Large", "no"));
      await ended.promise;
    });
    using _ = defer(ended.resolve);
    // Much larger than the socket buffers.
    const body = "x".repeat(32 * 2 ** 20);
    assertEquals(await scene.ask("/1", body), [413, "no"]);
    assertEquals(await scene.ask("/2"), [200, "/2 on 1"]);
  });
});

/** Resolves even if the test fails, so that the server can end. */
function defer(resolve: () => void): Disposable {
  return { [Symbol.dispose]: resolve };
}

async function skip(connection: Deno.Conn, count: number): Promise<void> {
  const buffer = new Uint8Array(65536);
  for (let left = count; left > 0;) {
    const length = await connection.read(buffer.subarray(0, left));
    if (length === null) return;
    left -= length;
  }
}
