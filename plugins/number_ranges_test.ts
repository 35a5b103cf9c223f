import { assertEquals } from "@std/assert";
import { createInvoker } from "../cni/invoke/in_process.ts";
import { dispatch } from "../cni/skel.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { findPlugin } from "./registry.ts";

const HUGE = 2 ** 32;

/** A key with a number that the kernel does not have. */
const ROWS: readonly [type: string, keys: object, path: string][] = [
  ["tap", { mtu: -1 }, "mtu"],
  ["tap", { mtu: HUGE }, "mtu"],
  ["tap", { owner: -1 }, "owner"],
  ["ptp", { mtu: HUGE }, "mtu"],
  ["bridge", { mtu: HUGE }, "mtu"],
  ["macvlan", { bcqueuelen: -1 }, "bcqueuelen"],
  ["tuning", { mtu: -1 }, "mtu"],
  ["tuning", { txQLen: HUGE }, "txQLen"],
  ["vrf", { vrfname: "blue", table: -1 }, "table"],
  ["sbr", { table: -1 }, "table"],
  ["dhcp", { ipam: { type: "dhcp", priority: -1 } }, "ipam.priority"],
];

Deno.test("ADD names the key and the range of a number that is out of range", async (t) => {
  await eachRow(t, ROWS, async ([type, keys, path]) => {
    const plugin = await findPlugin(type);
    const config = { cniVersion: "1.0.0", name: "net1", type, ...keys };
    const { stdout } = await dispatch(plugin ?? fail(type), {
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "c1",
        CNI_NETNS: "/nowhere",
        CNI_IFNAME: "eth0",
        CNI_PATH: "/nowhere",
        CNI_LOG_FILE: "stderr",
      },
      stdin: () => new TextEncoder().encode(JSON.stringify(config)),
      invoker: createInvoker(dispatch, findPlugin),
      hostNetns: "/proc/thread-self/ns/net",
    });
    const { code, msg } = JSON.parse(stdout);
    const named = msg.includes(`: ${path}: `) &&
      / (at (most|least)|to) /.test(msg);
    assertEquals([code, named], [7, true], msg);
  }, ([type, keys]) => `${type} ${JSON.stringify(keys)}`);
});

function fail(type: string): never {
  throw new Error(`No plugin is named "${type}"`);
}
