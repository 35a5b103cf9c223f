import { assertEquals } from "@std/assert";
import { type ServerConnection, UnixServer } from "./unix_server.ts";

/** A server on a temporary socket, and the errors for which it cut connections. */
class TestServer implements AsyncDisposable {
  readonly path: string;
  readonly failures: unknown[] = [];
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #server: UnixServer;

  constructor(onConnection: (connection: ServerConnection) => void) {
    this.path = `${this.#directory}/test.sock`;
    this.#server = new UnixServer({
      socket: this.path,
      onConnection,
      onRefused: () => false,
      onFailed: (error) => this.failures.push(error),
    });
  }

  /** Connects, and accepts. */
  async connect(): Promise<Deno.UnixConn> {
    const client = await Deno.connect({ transport: "unix", path: this.path });
    this.#server.poll();
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await this.#server.closed;
    await Deno.remove(this.#directory, { recursive: true });
  }
}

Deno.test("ServerConnection.poll() receives all that has arrived, and the end", async () => {
  let connection: ServerConnection | undefined;
  await using server = new TestServer((accepted) => connection = accepted);
  const client = await server.connect();
  let received = 0, isGone = false;
  connection?.handle({
    onData: ({ length }): void => {
      received += length;
    },
    onGone: (): void => {
      isGone = true;
    },
  });
  // More than one receive returns, and less than the kernel keeps.
  const sent = await client.write(new Uint8Array(150_000));
  client.close();
  connection?.poll();
  assertEquals([received, isGone], [sent, true]);
  assertEquals(server.failures, []);
});

Deno.test("a handler's error cuts its connection only, and is reported", async () => {
  const bug = new TypeError("a bug");
  let isGone = false;
  const connections: ServerConnection[] = [];
  await using server = new TestServer((connection) => {
    connections.push(connection);
    if (connections.length === 2) throw bug;
    connection.handle({
      onData: ([first]): void => {
        if (first === 1) throw bug;
        connection.send(new Uint8Array([2]));
        connection.end();
      },
      onGone: (): void => {
        isGone = true;
      },
    });
  });
  const answer = new Uint8Array(1);
  using broken = await server.connect();
  await broken.write(new Uint8Array([1]));
  assertEquals([await broken.read(answer), isGone], [null, true]);
  using refused = await server.connect();
  assertEquals(await refused.read(answer), null);
  using well = await server.connect();
  await well.write(new Uint8Array([0]));
  assertEquals([await well.read(answer), answer], [1, new Uint8Array([2])]);
  assertEquals(server.failures, [bug, bug]);
});

Deno.test("a peer that resets its connection is no failure", async () => {
  let connection: ServerConnection | undefined;
  let isGone = false;
  await using server = new TestServer((accepted) => connection = accepted);
  const client = await server.connect();
  connection?.handle({
    onData: (): void => {},
    onGone: (): void => {
      isGone = true;
    },
  });
  // With unread bytes, the kernel resets it.
  connection?.send(new Uint8Array([1]));
  client.close();
  connection?.poll();
  assertEquals([isGone, server.failures], [true, []]);
});
