import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type AcceptedStream,
  UnixListener,
} from "../../ffi/socket/unix_socket.ts";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { PeerProcess, type PeerSource } from "./peer_process.ts";

/**
 * Connects, says so, and waits: `perl -e SCRIPT PATH`. With a further argument
 * the process that has connected ends, and another one keeps the connection.
 */
const CONNECT = `use Socket; $| = 1;
  socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un($ARGV[0]))
    or die $!;
  if ($ARGV[1] && ($pid = fork())) { print "$pid\\n"; exit; }
  print "$$\\n" unless $ARGV[1];
  sleep 100;`;

const needsPerl = ignoreUnless(hasCommand("perl"), "needs perl");

/** Runs work with a connection and the process that connected. */
async function withPeer(
  work: (
    stream: AcceptedStream,
    child: Deno.ChildProcess,
  ) => void | Promise<void>,
  { ends = false } = {},
): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const path = `${directory}/socket`;
  using listener = new UnixListener(path);
  const child = new Deno.Command("perl", {
    args: ["-e", CONNECT, path, ...ends ? ["ends"] : []],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  const lastPid = Number(new TextDecoder().decode(value));
  try {
    using stream = listener.accept();
    assert(stream !== undefined);
    await work(stream, child);
  } finally {
    Deno.kill(lastPid, "SIGKILL");
    await child.status;
    await reader.cancel();
    await Deno.remove(directory, { recursive: true });
  }
}

/** As the kernel was before Linux 6.5. */
function withoutDescriptors({ peer }: AcceptedStream): PeerSource {
  return { peer: { ...peer }, openPeerProcess: () => undefined };
}

for (
  const [kernel, sourceOf] of [
    ["", (stream: AcceptedStream): PeerSource => stream],
    [" of an old kernel", withoutDescriptors],
  ] as const
) {
  Deno.test({
    name: `PeerProcess${kernel} reads /proc of who has connected`,
    ...needsPerl,
    fn: () =>
      withPeer((stream, child) => {
        const process = new PeerProcess(sourceOf(stream));
        const read = process.read((directory) =>
          Deno.readTextFileSync(`${directory}/comm`)
        );
        assertEquals([read, stream.peer.pid], ["perl\n", child.pid]);
      }),
  });

  Deno.test({
    name: `PeerProcess${kernel} reads nothing of a process that has ended`,
    ...needsPerl,
    fn: () =>
      withPeer(async (stream, child) => {
        const early = new PeerProcess(sourceOf(stream));
        await child.status;
        for (const process of [early, new PeerProcess(sourceOf(stream))]) {
          assertThrows(() => process.read((directory) => directory));
        }
      }, { ends: true }),
  });
}

Deno.test({
  name: "PeerProcess notices that its process ends while it is read",
  ...needsPerl,
  fn: () =>
    withPeer((stream, child) => {
      const process = new PeerProcess(stream);
      const read = (directory: string): void => {
        child.kill("SIGKILL");
        while (!Deno.readTextFileSync(`${directory}/stat`).includes(") Z ")) {
          // It is about to end.
        }
      };
      const why = `process ${child.pid} has exited`;
      assertThrows(() => process.read(read), Error, why);
    }),
});

Deno.test({
  name: "PeerProcess of an old kernel notices a process ID that is used again",
  ...needsPerl,
  fn: () =>
    withPeer((stream) => {
      const peer = { pid: Deno.pid };
      const process = new PeerProcess({ ...withoutDescriptors(stream), peer });
      peer.pid = stream.peer.pid;
      const why = `process ${peer.pid} has exited`;
      assertThrows(() => process.read((directory) => directory), Error, why);
    }),
});

Deno.test("PeerProcess does not guess who is in another PID namespace", () => {
  const source = { peer: { pid: 0 }, openPeerProcess: () => undefined };
  const process = new PeerProcess(source);
  assertThrows(
    () => process.read((directory) => directory),
    Error,
    "namespace",
  );
});
