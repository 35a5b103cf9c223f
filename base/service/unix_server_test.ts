import { assertEquals } from "@std/assert";
import { type ServerConnection, UnixServer } from "./unix_server.ts";

Deno.test("ServerConnection.poll() receives all that has arrived, and the end", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const path = `${directory}/test.sock`;
  const { promise: connected, resolve } = Promise.withResolvers<
    ServerConnection
  >();
  const server = new UnixServer({
    socket: path,
    onConnection: resolve,
    onRefused: () => false,
  });
  try {
    const client = await Deno.connect({ transport: "unix", path });
    server.poll();
    const connection = await connected;
    let received = 0, isGone = false;
    connection.handle({
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
    connection.poll();
    assertEquals([received, isGone], [sent, true]);
  } finally {
    server.close();
    await server.closed;
    await Deno.remove(directory, { recursive: true });
  }
});
