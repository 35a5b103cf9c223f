/**
 * What plugins say when a request cannot be sent: whichever it is, an operator
 * must be able to tell what was being done, and to what.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { bridgeConfig } from "./_harness/bridge_network.ts";
import { rootTest } from "../testing/capabilities.ts";
import { FailingSend } from "./_harness/failing_send.ts";
import { eachStep } from "./_harness/fault_steps.ts";
import { type Keys, PluginScene } from "./_harness/plugin_scene.ts";
import { IP4, SbrScene } from "./_harness/sbr_scene.ts";
import type { CallOutput, TestHosts } from "../testing/test_hosts.ts";

/** Before anything opens the C library. */
const sending = FailingSend.install();

/** A container, and calls of a plugin for it. */
interface Scene extends Disposable {
  run(command: string, extras?: Keys): Promise<CallOutput>;
}

function ptpConfig(hosts: TestHosts): Keys {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
  const subnets = ["10.1.2.0/24", "2001:db8:1::/64"];
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "ptp",
    ipam: { ...hosts.hostLocal(...subnets), routes },
  };
}

const SCENES: Readonly<Record<string, () => Scene>> = {
  ptp: () => new PluginScene("ptp", ptpConfig),
  bridge: () =>
    new PluginScene(
      "bridge",
      (hosts) => bridgeConfig(hosts, { hairpinMode: true }),
    ),
  loopback: () =>
    new PluginScene("loopback", () => ({
      cniVersion: "1.1.0",
      name: "lo",
      type: "loopback",
    })),
  sbr: () => new SbrScene(undefined, { cniVersion: "1.1.0", ips: [IP4] }),
};

for (const [type, make] of Object.entries(SCENES)) {
  for (const command of ["ADD", "CHECK", "DEL", "GC"]) {
    rootTest(
      `${type} says which ${command} request failed, and on what`,
      async (t) => {
        await eachStep(t, (step) => failAt(make, command, step));
      },
    );
  }
}

/**
 * Has one request of a command fail, and looks at what is said.
 *
 * @returns The message, "" if it was done without; undefined if there is no such request
 */
async function failAt(
  make: () => Scene,
  command: string,
  step: number,
): Promise<string | undefined> {
  using scene = make();
  let extras: Keys = {};
  if (command !== "ADD") {
    const { json } = await scene.run("ADD");
    extras = { "cni.dev/valid-attachments": [] };
    if (scene instanceof PluginScene) extras = { ...extras, prevResult: json };
  }
  sending.sent = 0;
  sending.failing = step;
  const { exitCode, json } = await scene.run(command, extras);
  sending.failing = 0;
  if (sending.sent < step) {
    assertEquals(exitCode, 0);
    return undefined;
  }
  // DEL tries again, or warns where it cannot give something back.
  if (exitCode === 0) return "";
  const { msg, details = "" } = json;
  const text = `${msg}: ${details}`;
  assertMatch(text, /RTM_[A-Z]+ [^:]+.*: send: ENOBUFS/);
  // Numbers of links say nothing to those who read it later.
  const says = /^Cannot .*("|\d[.:/]|stale)|^RTM_GET[A-Z]+ ("|list)/;
  assert(says.test(msg), msg);
  return msg;
}
