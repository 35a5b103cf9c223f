import { assertEquals } from "@std/assert";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { FileLock } from "../files/lock.ts";
import { SocketFile } from "./socket_file.ts";

/** Runs a test with the file of a daemon's socket. */
async function withSocket(
  test: (file: SocketFile, directory: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const listen = (path: string): Deno.Listener =>
    Deno.listen({ transport: "unix", path });
  try {
    const file = await SocketFile.create({ directory, name: "cni", listen });
    await test(file, directory);
    await file.close();
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("a removed socket is restored", () =>
  withSocket(async (file) => {
    assertEquals(await file.keepInPlace(), "ours");
    await Deno.remove(file.path);
    assertEquals(await file.keepInPlace(), "restored");
    assertEquals(await file.keepInPlace(), "ours");
  }));

Deno.test("a socket on which no process listens is replaced", () =>
  withSocket(async (file) => {
    await Deno.remove(file.path);
    await Deno.writeTextFile(file.path, "");
    assertEquals(await file.keepInPlace(), "restored");
  }));

Deno.test("a daemon that starts while the socket is missing keeps the name", () =>
  withSocket(async (file, directory) => {
    await Deno.remove(file.path);
    const lock = await FileLock.acquire(`${directory}/.lock`, 0o600);
    const state = file.keepInPlace();
    using _other = Deno.listen({ transport: "unix", path: file.path });
    lock[Symbol.dispose]();
    assertEquals(await state, "another daemon's");
  }));

/** Listens, and accepts nothing: `perl -e SCRIPT PATH`. */
const LISTEN = "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(" +
  "Local => $ARGV[0], Listen => 1) or die; $| = 1; print qq(ready\\n); <STDIN>";

Deno.test({
  name: "a daemon whose backlog is full keeps the name",
  ...ignoreUnless(hasCommand("perl"), "needs perl"),
  fn: () =>
    withSocket(async (file) => {
      const { path } = file;
      await Deno.remove(path);
      const other = new Deno.Command("perl", {
        args: ["-e", LISTEN, path],
        stdin: "piped",
        stdout: "piped",
      }).spawn();
      const reader = other.stdout.getReader();
      await reader.read();
      // With a backlog of 1, two connections wait; the next connect(2) fails.
      using _first = await Deno.connect({ transport: "unix", path });
      using _second = await Deno.connect({ transport: "unix", path });
      assertEquals(await file.keepInPlace(), "another daemon's");
      await other.stdin.close();
      await reader.cancel();
      await other.status;
    }),
});
