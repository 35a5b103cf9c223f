import { assertEquals } from "@std/assert";
import { PluginFolder } from "../plugin_folder.ts";
import { TalkServer } from "../talk_server.ts";
import { Http2Client } from "./client.ts";
import { Http2Connection } from "./connection.ts";
import type { Http2Stream } from "./stream.ts";

Deno.test("Http2Client sees all of an answer", async () => {
  using folder = new PluginFolder();
  const path = `${folder.path}/s.sock`;
  const large = new Uint8Array(100_000).fill(7);
  const echo = async (stream: Http2Stream): Promise<void> => {
    await stream.ended;
    await stream.sendHeaders({
      ":status": "200",
      to: stream.headers?.["a"] ?? "",
    });
    await stream.sendData(stream.body);
    await stream.sendHeaders({ end: "1" }, { endStream: true });
  };
  await using _server = new TalkServer(
    Deno.listen({ transport: "unix", path }),
    (conn) => new Http2Connection(conn, (stream) => void echo(stream)).serve(),
  );
  await using client = await Http2Client.connect(path);
  for (const a of ["1", "2"]) {
    const stream = await client.request({ ":method": "POST", a }, large);
    await stream.ended;
    assertEquals(stream.headers, { ":status": "200", to: a });
    assertEquals(stream.body, large);
    assertEquals([stream.trailers, stream.failure], [{ end: "1" }, undefined]);
  }
});

Deno.test("Http2Client fails without a server, instead of waiting", async () => {
  using folder = new PluginFolder();
  const path = `${folder.path}/s.sock`;
  await using _server = new TalkServer(
    Deno.listen({ transport: "unix", path }),
    () => Promise.resolve(),
  );
  await using client = await Http2Client.connect(path);
  const first = client.begin({});
  await first.ended;
  assertEquals(first.failure instanceof Error, true);
  const second = client.begin({});
  assertEquals(second.failure?.message, "There is no connection");
});
