/**
 * The executable `dhcp` as plugin and as daemon, and the node daemon as the
 * plugin's daemon.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path/posix";
import { findFileId } from "../../base/files/same_file.ts";
import { UnixListener } from "../../ffi/socket/unix_socket.ts";
import { setCloseOnExec } from "../../ffi/libc.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import type { ExecOutput } from "../../testing/exec_in.ts";
import { DhcpScene, needsDnsmasq } from "./testing.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import {
  BIN,
  needsBin,
  startPlugin,
} from "../../tests/_harness/executables.ts";
import { NodeDaemon } from "../../tests/_harness/node_daemon.ts";

const needs = allOf(needsBin, needsDnsmasq);

/** Runs the executable of the bridge. */
async function call(
  scene: DhcpScene,
  command: string,
  more: object = {},
): Promise<ExecOutput> {
  const config = { ...scene.config(), ...more };
  return await startPlugin(scene.hosts, { type: "bridge", command, config })
    .output;
}

async function succeed(
  scene: DhcpScene,
  command: string,
  more: object = {},
): Promise<string> {
  const { code, stdout, stderr } = await call(scene, command, more);
  assertEquals([code, stderr], [0, ""], stdout);
  return stdout;
}

rootTest("dhcp daemon accepts the Go daemon's flags", needs, async () => {
  await using scene = new DhcpScene();
  const server = await scene.startDnsmasq();
  const pidfile = join(scene.hosts.directory, "dhcp.pid");
  const flags = ["-socketpath", scene.socket, "--pidfile", pidfile];
  const daemon = scene.spawn(`${BIN}/dhcp`, "daemon", ...flags, "-timeout=5s");
  await daemon.says("msg=listening");
  assertEquals(await Deno.readTextFile(pidfile), `${daemon.pid}`);
  const prevResult = JSON.parse(await succeed(scene, "ADD"));
  await succeed(scene, "CHECK", { prevResult });
  await daemon.stop();
  const next = scene.spawn(`${BIN}/dhcp`, "daemon", ...flags);
  await next.says("msg=confirmed");
  await succeed(scene, "CHECK", { prevResult });
  await succeed(scene, "DEL");
  await server.says("DHCPRELEASE");
  await next.stop("SIGTERM");
  assert(![pidfile, scene.socket].some(exists));
});

rootTest("dhcp daemon keeps its successor's pidfile", needsBin, async () => {
  await using scene = new DhcpScene();
  const pidfile = join(scene.hosts.directory, "dhcp.pid");
  const flags = ["-socketpath", scene.socket, "-pidfile", pidfile];
  const first = scene.spawn(`${BIN}/dhcp`, "daemon", ...flags);
  await first.says("msg=listening");
  const second = scene.spawn(`${BIN}/dhcp`, "daemon", ...flags);
  const read = (): string => Deno.readTextFileSync(pidfile);
  await eventually("it has a pidfile", () => read() === `${second.pid}`);
  await first.stop("SIGTERM");
  await second.says("msg=listening");
  assertEquals(read(), `${second.pid}`);
  await second.stop("SIGTERM");
  assert(!exists(pidfile));
});

rootTest("dhcp.add() fails when its daemon is killed", needsBin, async () => {
  await using scene = new DhcpScene();
  const flags = ["-socketpath", scene.socket, "-timeout", "200ms"];
  const daemon = scene.spawn(`${BIN}/dhcp`, "daemon", ...flags);
  await daemon.says("msg=listening");
  const adding = call(scene, "ADD");
  await daemon.says("Cannot get a lease");
  await daemon.stop();
  const { code, stdout } = await adding;
  assertEquals([code, JSON.parse(stdout).code], [1, 11]);
  assertEquals(scene.leases, []);
});

rootTest(
  "dhcp daemon uses the socket of the service manager",
  needsBin,
  async () => {
    await using scene = new DhcpScene();
    using listener = new UnixListener(scene.socket);
    setCloseOnExec(listener.fd, false);
    const script =
      `exec 3<&${listener.fd}; export LISTEN_PID=$$ LISTEN_FDS=1; ` +
      `exec ${BIN}/dhcp daemon -socketpath ${scene.socket}`;
    for (const _ of ["the first", "and after a restart"]) {
      const daemon = scene.spawn("bash", "-c", script);
      await daemon.says("msg=listening");
      await statusSucceeds(scene);
      await daemon.stop("SIGTERM");
    }
    setCloseOnExec(listener.fd, true);
  },
);

async function statusSucceeds(scene: DhcpScene): Promise<void> {
  const config = scene.config();
  const status = { type: "dhcp", command: "STATUS", config };
  const { code, stdout } = await startPlugin(scene.hosts, status).output;
  assertEquals([code, stdout], [0, ""]);
}

rootTest(
  "the node daemon runs dhcp, and leases survive when it is killed",
  needs,
  async () => {
    await using scene = new DhcpScene();
    const server = await scene.startDnsmasq();
    const { hosts, socket } = scene;
    const args = [`--dhcp-socket=${socket}`];
    let prevResult: unknown;
    {
      await using node = await NodeDaemon.start(hosts, { args });
      const config = scene.config();
      await eventually("there is a socket", () => exists(socket));
      const added = await node.call("bridge", "ADD", { config }).output;
      assertEquals([added.code, added.stderr], [0, ""], added.stdout);
      prevResult = JSON.parse(added.stdout);
    }
    await using node = await NodeDaemon.start(hosts, { args });
    await node.says("msg=confirmed");
    const config = { ...scene.config(), prevResult };
    for (const command of ["CHECK", "DEL"]) {
      const { code, stdout } = await node.call("bridge", command, { config })
        .output;
      assertEquals([code, stdout], [0, ""]);
    }
    await server.says("DHCPRELEASE");
    node.signal("SIGTERM");
    await node.ended();
    assertStringIncludes(node.log, "msg=released");
  },
);

function exists(path: string): boolean {
  return findFileId(path) !== undefined;
}
