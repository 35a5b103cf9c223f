/**
 * What `cni doctor` says of the node daemon, with a real one.
 *
 * @module
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { Check } from "./finding.ts";
import { DAEMON_CHECKS } from "./daemons.ts";
import { diagnose } from "./diagnose.ts";
import { describeNodeDaemon } from "../node/node_daemon.ts";
import { UnixListener } from "../../ffi/socket/unix_socket.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { DoctorScene } from "./testing/scene.ts";
import { needsBin } from "../../tests/_harness/executables.ts";
import { NodeDaemon } from "../../tests/_harness/node_daemon.ts";

/** The findings of the checks of daemons, and the summary's line. */
async function look(
  scene: DoctorScene,
  daemonSocket: string,
): Promise<{ findings: readonly string[]; line: string }> {
  using node = scene.node({ daemonSocket, proc: "/proc" });
  const checks: readonly Check[] = DAEMON_CHECKS;
  const { findings, unchecked } = await diagnose(node, () => {}, checks);
  assertEquals(unchecked, []);
  return {
    findings: findings.map(({ severity, message, command }) =>
      `${severity}: ${message}; ${command}`
    ),
    line: describeNodeDaemon(await node.daemonAt(daemonSocket)),
  };
}

rootTest("cni doctor reports the node daemon's state", needsBin, async (t) => {
  using scene = await DoctorScene.create();
  const { hosts } = scene;
  await using daemon = await NodeDaemon.start(hosts);
  const { socket, pid } = daemon;

  await t.step("a different build", async () => {
    const { findings, line } = await look(scene, socket);
    assertEquals(findings.length, 1, findings.join("\n"));
    assertMatch(
      findings[0] ?? "",
      /^warning: .*is a different build than this/,
    );
    assertMatch(findings[0] ?? "", /; cni daemon restart$/);
    assertMatch(
      line,
      new RegExp(`^process ${pid}, version .*; 0 calls, 0 declined`),
    );
  });

  await t.step("calls that the daemon declines", async () => {
    const wrapper = ["unshare", "--mount"];
    const ipam = hosts.hostLocal("10.9.0.0/24");
    const config = { cniVersion: "1.0.0", name: "far", type: "ptp", ipam };
    const call = { config, wrapper, ifName: "net7" };
    for (const command of ["ADD", "DEL"]) {
      const { code, stdout } = await daemon.call("ptp", command, call).output;
      assertEquals(code, 0, stdout);
    }
    const { findings } = await look(scene, socket);
    assertMatch(
      findings.join("\n"),
      /2 of the last 2 calls to the node daemon ran locally: another mount namespace \(the last one: ptp DEL\)/,
    );
  });

  await t.step("a stopped daemon", async () => {
    daemon.signal("SIGSTOP");
    const { findings, line } = await look(scene, socket);
    daemon.signal("SIGCONT");
    assertEquals(findings, [
      `warning: the node daemon at "${socket}" does not answer: process ${pid} ` +
      `is stopped; kill -CONT ${pid}`,
    ]);
    assertEquals(line, `process ${pid} is stopped`);
  });
});

rootTest(
  "cni doctor counts a daemonSocket of null as the default",
  needsBin,
  async () => {
    using scene = await DoctorScene.create();
    await using daemon = await NodeDaemon.start(scene.hosts);
    for (const file of ["10-pods", "20-lan"]) {
      const plugins = scene.readNetwork(file).plugins
        .map((one) => ({ ...one, daemonSocket: null }));
      scene.writeNetwork(file, plugins);
    }
    const { findings } = await look(scene, daemon.socket);
    assertEquals(findings.filter((line) => line.includes("no network in")), []);
  },
);

rootTest("cni doctor ignores other listeners on the socket", async () => {
  using scene = await DoctorScene.create();
  const { directory } = scene.hosts;
  const socket = `${directory}/daemon.sock`;
  const absent = await look(scene, socket);
  assertEquals(absent, {
    findings: [],
    line:
      "none; each call of this project's plugins starts a JavaScript engine",
  });
  using _listener = new UnixListener(socket);
  const { findings } = await look(scene, socket);
  assertMatch(
    findings.join(),
    /^warning: the node daemon at .* does not answer/,
  );
});
