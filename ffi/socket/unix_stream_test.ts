import { assert, assertEquals } from "@std/assert";
import { UnixStream } from "./unix_stream.ts";

Deno.test("UnixStream talks to a socket", async () => {
  const directory = await Deno.makeTempDir();
  // A path of the greatest length.
  const path = `${directory}/`.padEnd(107, "s");
  assertEquals(UnixStream.connect(path), undefined);
  assertEquals(UnixStream.connect(`${path}s`), undefined);
  {
    using listener = Deno.listen({ transport: "unix", path });
    using stream = UnixStream.connect(path);
    assert(stream !== undefined);
    stream.setLimit(60_000);
    using peer = await listener.accept();
    assert(stream.send(new TextEncoder().encode("question")));
    const buffer = new Uint8Array(8);
    assertEquals(await peer.read(buffer), 8);
    assertEquals(new TextDecoder().decode(buffer), "question");
    await peer.write(new TextEncoder().encode("answer"));
    assertEquals(stream.receive(buffer), 6);
    peer.close();
    assertEquals(stream.receive(buffer), 0);
    assertEquals(stream.send(buffer), false);
  }
  await Deno.remove(directory, { recursive: true });
});
