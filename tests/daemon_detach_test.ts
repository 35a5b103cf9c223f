/**
 * `cni daemon --detach` and `--pid-file`, for nodes without a service manager.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ifPossible } from "../base/files/io.ts";
import { findListener } from "../ffi/socket/unix_socket.ts";
import { allOf, needsRoot } from "../testing/capabilities.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { hasEnded } from "./_harness/process_group.ts";
import { eachRow } from "./_harness/table.ts";

const { ignore, suffix } = allOf(needsBin, needsRoot);

/** Runs `cni daemon --detach`. The daemon keeps its stderr, which is a file. */
async function detach(
  directory: string,
  ...flags: readonly string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  const log = await Deno.makeTempFile({ prefix: "cni-test-" });
  try {
    const { code, stdout } = await new Deno.Command("sh", {
      args: [
        ...["-c", 'exec "$@" 2>"$0"', log, `${BIN}/cni`, "daemon", "--detach"],
        ...["--no-warm-up", "--no-heal", "--log-level=error"],
        `--socket-dir=${directory}`,
        ...flags,
      ],
    }).output();
    const stderr = await Deno.readTextFile(log);
    return { code, stdout: new TextDecoder().decode(stdout), stderr };
  } finally {
    await Deno.remove(log);
  }
}

Deno.test({
  name: "cni daemon --detach returns when the daemon listens" + suffix,
  ignore,
  async fn(): Promise<void> {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    const pidFile = `${directory}/daemon.pid`;
    const socket = `${directory}/daemon.sock`;
    const read = (): number =>
      Number(ifPossible(() => Deno.readTextFileSync(pidFile)));
    try {
      const first = await detach(directory);
      assertEquals([first.code, first.stderr], [0, ""]);
      const pid = read();
      assertStringIncludes(first.stdout, `process ${pid}`);
      assertEquals(findListener(socket)?.pid, pid);

      // Another one takes the sockets and the file.
      const second = await detach(directory, "--json", "--pid-file", pidFile);
      assertEquals(JSON.parse(second.stdout), { pid: read(), pidFile });
      assert(read() !== pid);
      assertEquals(findListener(socket)?.pid, read());
      await eventually("the first ends", () => hasEnded(pid));

      const last = read();
      Deno.kill(last, "SIGTERM");
      await eventually("the second ends", () => hasEnded(last));
      assertEquals([...Deno.readDirSync(directory)].map(({ name }) => name), [
        ".lock",
      ]);
    } finally {
      const left = read();
      if (left) ifPossible(() => Deno.kill(left, "SIGKILL"));
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: "cni daemon --detach accepts both forms of --pid-file" + suffix,
  ignore,
  async fn(t): Promise<void> {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    const pidFile = `${directory}/own.pid`;
    try {
      await eachRow(t, [
        ["--pid-file FILE", "--pid-file", pidFile],
        ["--pid-file=FILE", `--pid-file=${pidFile}`],
      ], async ([, ...flags]) => {
        const { code, stdout, stderr } = await detach(directory, ...flags);
        assertEquals([code, stderr], [0, ""]);
        const pid = Number(await Deno.readTextFile(pidFile));
        assertStringIncludes(stdout, `process ${pid}`);
        const line = await Deno.readTextFile(`/proc/${pid}/cmdline`);
        assertEquals(line.split("--pid-file").length, 2, line);
        Deno.kill(pid, "SIGTERM");
        await eventually("it ends", () => hasEnded(pid));
        assertEquals(exists(pidFile), false);
      });
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: "cni daemon --detach fails if the daemon cannot listen" + suffix,
  ignore,
  async fn(): Promise<void> {
    const { code, stdout, stderr } = await detach("/dev/null/cni");
    assertEquals([code, stdout], [1, ""]);
    assertStringIncludes(stderr, 'Cannot listen in "/dev/null/cni"');
    assertStringIncludes(
      stderr,
      "Cannot start the daemon: it exited with code",
    );
  },
});

function exists(path: string): boolean {
  return ifPossible(() => Deno.lstatSync(path)) !== undefined;
}
