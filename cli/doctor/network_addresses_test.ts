/** What starts a DHCP daemon again, as `cni doctor` prints it. */

import { assertEquals } from "@std/assert";
import { ifPossible } from "../../base/files/io.ts";
import { allOf, ignoreUnless, rootTest } from "../../testing/capabilities.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { BIN, needsBin } from "../../tests/_harness/executables.ts";
import { NETWORK_ADDRESS_CHECKS } from "./network_addresses.ts";
import { CHECKS } from "./checks.ts";
import { NETWORK_ADDRESS_FAULTS } from "./testing/faults/network_addresses.ts";
import { DoctorScene } from "./testing/scene.ts";

const FAULT = NETWORK_ADDRESS_FAULTS.find(({ name }) =>
  name === "leases without a DHCP daemon"
);
const OTHERS = CHECKS.filter((one) => !NETWORK_ADDRESS_CHECKS.includes(one))
  .map(({ name }) => name);

/** Lists the daemons at a socket. */
function listDaemons(socket: string): number[] {
  return [...Deno.readDirSync("/proc")].flatMap(({ name }) => {
    const line = /^\d+$/.test(name) &&
      ifPossible(() => Deno.readTextFileSync(`/proc/${name}/cmdline`));
    return line && line.split("\0").includes(socket) ? [Number(name)] : [];
  });
}

rootTest(
  "the command of lease-not-renewed starts a daemon that keeps the leases",
  allOf(needsBin, ignoreUnless(FAULT?.ignore === false, "needs dnsmasq")),
  async () => {
    using scene = await DoctorScene.create();
    const { path, directory } = scene.hosts;
    const socket = `${directory}/dhcp.sock`;
    await Deno.remove(`${path}/dhcp`);
    await Deno.symlink(`${BIN}/dhcp`, `${path}/dhcp`);
    const undo = await FAULT?.seed(scene);
    try {
      const [finding] = await scene.find({ without: OTHERS });
      assertEquals(scene.follow(finding?.command ?? "false"), true);
      await eventually(
        "the daemon keeps the leases",
        async () => (await scene.find({ without: OTHERS })).length === 0,
      );
      assertEquals(listDaemons(socket).length, 1);
    } finally {
      for (const pid of listDaemons(socket)) Deno.kill(pid);
      await eventually("it ends", () => listDaemons(socket).length === 0);
      await undo?.();
    }
  },
);
