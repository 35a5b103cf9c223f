import { assertEquals, assertMatch } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { StateServer, type StateServerOptions } from "./state_server.ts";

Deno.test("StateServer listens after another program released the port", async () => {
  const lines: string[] = [];
  const note = (level: string) => (message: string): void =>
    void lines.push(`${level} ${message}`);
  const log = { warn: note("warn"), error: note("error"), info: note("info") };
  const other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr as Deno.NetAddr;
  const address = { hostname: "127.0.0.1", port };
  await using server = new StateServer({
    address,
    respond: () => Promise.resolve(new Response("state")),
    log,
    maxConnections: 1,
    retryMs: 1,
  });
  await eventually("it has tried", () => lines.length > 0);
  const { problem = "" } = server.describe();
  assertEquals(server.describe().address, `127.0.0.1:${port}`);
  assertEquals(problem.includes("Address already in use"), true, problem);
  other.close();
  await eventually("it listens", () => server.describe().problem === undefined);
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
  assertEquals(await answer.text(), "state");
  // The problem is logged once, however often it tried.
  assertEquals(lines, ["error Cannot serve the metrics", "info serving"]);
});

/** A server on a free port, and the connections to it. */
class Scene implements AsyncDisposable {
  readonly address;
  readonly #server: StateServer;
  readonly #clients = new DisposableStack();

  constructor(options: Partial<StateServerOptions> = {}) {
    using free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = free.addr as Deno.NetAddr;
    free.close();
    const ignore = (): void => {};
    this.address = { hostname: "127.0.0.1", port };
    this.#server = new StateServer({
      address: this.address,
      respond: () => Promise.resolve(new Response("state")),
      log: { warn: ignore, error: ignore, info: ignore },
      maxConnections: 4,
      ...options,
    });
  }

  /** Connects, and sends a request or a part of it. */
  async connect(request = ""): Promise<Deno.TcpConn> {
    const client = this.#clients.use(await Deno.connect(this.address));
    await client.write(new TextEncoder().encode(request));
    return client;
  }

  async ask(): Promise<string> {
    const { hostname, port } = this.address;
    return await (await fetch(`http://${hostname}:${port}/metrics`)).text();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#clients.dispose();
    await this.#server[Symbol.asyncDispose]();
  }
}

const REQUEST = "GET /metrics HTTP/1.1\r\n\r\n";

/** Reads until the server closes the connection. */
async function readAll(client: Deno.TcpConn): Promise<string> {
  try {
    return await new Response(client.readable).text();
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionReset) return "";
    throw error;
  }
}

Deno.test("StateServer closes the oldest connection without a request for a new one", async () => {
  await using scene = new Scene();
  const idle: Deno.TcpConn[] = [];
  for (let count = 0; count < 200; count++) {
    idle.push(await scene.connect("GET"));
  }
  assertEquals(await scene.ask(), "state");
  const last = idle.splice(-3);
  for (const client of idle) assertEquals(await readAll(client), "");
  for (const client of last) {
    await client.write(new TextEncoder().encode(REQUEST.slice("GET".length)));
    assertMatch(await readAll(client), /state$/);
  }
});

Deno.test("StateServer closes a connection whose peer does not read the response", async () => {
  // More than the kernel keeps of it.
  const big = "a".repeat(16 * 1024 * 1024);
  await using scene = new Scene({
    respond: () => Promise.resolve(new Response(big)),
    maxConnections: 1,
  });
  const slow = await scene.connect(REQUEST);
  await slow.read(new Uint8Array(1));
  assertEquals((await scene.ask()).length, big.length);
});

Deno.test("StateServer finishes its responses when it stops, and accepts no connection", async () => {
  const answer = Promise.withResolvers<Response>();
  const asked = Promise.withResolvers<void>();
  await using scene = new Scene({
    respond: () => {
      asked.resolve();
      return answer.promise;
    },
    maxConnections: 1,
  });
  const begun = await scene.connect(REQUEST);
  await asked.promise;
  assertEquals(await readAll(await scene.connect()), "");
  answer.resolve(new Response("state"));
  assertMatch(await readAll(begun), /state$/);
});

Deno.test("StateServer closes a connection whose request does not arrive in time", async () => {
  await using scene = new Scene({ connectionMs: 1 });
  assertEquals(await readAll(await scene.connect()), "");
});

Deno.test("StateServer stops while it waits for the port", async () => {
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr as Deno.NetAddr;
  const ignore = (): void => {};
  const log = { warn: ignore, error: ignore, info: ignore };
  const respond = (): Promise<Response> => Promise.resolve(new Response());
  const address = { hostname: "127.0.0.1", port };
  const options = { address, respond, log, maxConnections: 1 };
  await using _server = new StateServer(options);
});
