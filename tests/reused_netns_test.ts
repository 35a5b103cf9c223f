/**
 * DEL of a container that was deleted together with its network namespace, whose path
 * leads to another container's namespace now.
 */

import { assertEquals } from "@std/assert";
import { NetNs } from "../ffi/netns.ts";
import { rootTest } from "../testing/capabilities.ts";
import { runIn, snapshot } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { needsKind } from "./_harness/on_master.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { eachRow } from "./_harness/table.ts";

/** A list of plugins: the first one makes the interface. */
type List = (hosts: TestHosts) => Keys[];

const ptp = (hosts: TestHosts): Keys => ({
  type: "ptp",
  ipam: hosts.hostLocal("10.1.2.0/24"),
});

const LISTS: readonly [name: string, list: List][] = [
  ["ptp", (hosts) => [{ ...ptp(hosts), ipMasq: true }]],
  ["bridge", (hosts) => [{
    ...ptp(hosts),
    type: "bridge",
    bridge: "br0",
    isGateway: true,
    ipMasq: true,
    macspoofchk: true,
  }]],
  ["macvlan", (hosts) => [{
    ...ptp(hosts),
    type: "macvlan",
    master: "lan0",
  }]],
  ["tap", (hosts) => [{ ...ptp(hosts), type: "tap" }]],
  ["tuning", (hosts) => [ptp(hosts), {
    type: "tuning",
    dataDir: `${hosts.directory}/tuning`,
    mtu: 1400,
    promisc: true,
    sysctl: { "net.core.somaxconn": "500" },
  }]],
  ["sbr", (hosts) => [ptp(hosts), { type: "sbr" }]],
  ["bandwidth", (hosts) => [ptp(hosts), {
    type: "bandwidth",
    ingressRate: 1_000_000,
    ingressBurst: 1_000_000,
    egressRate: 1_000_000,
    egressBurst: 1_000_000,
  }]],
  ["bandwidth inside", (hosts) => [
    { ...ptp(hosts), type: "macvlan", master: "lan0" },
    {
      type: "bandwidth",
      ingressRate: 1_000_000,
      ingressBurst: 1_000_000,
      egressRate: 1_000_000,
      egressBurst: 1_000_000,
    },
  ]],
  ["firewall", (hosts) => [ptp(hosts), { type: "firewall" }]],
  ["portmap", (hosts) => [ptp(hosts), { type: "portmap", snat: true }]],
];

rootTest(
  "DEL changes nothing in a container that now has the path",
  needsKind("macvlan"),
  async (t) => {
    for (const hasResult of [true, false]) {
      await eachRow(t, LISTS, async ([, listOf]) => {
        using hosts = TestHosts.create();
        runIn(
          hosts.host,
          "sh",
          "-ec",
          "ip link add lan0 type veth peer name lan1; ip link set lan0 up; ip link set lan1 up",
        );
        const list = listOf(hosts).map((keys, index) => ({
          cniVersion: "1.0.0",
          name: "net1",
          ...keys,
          index,
        }));
        const run = async (
          command: string,
          keys: Keys,
          sandbox: NetNs,
          containerId: string,
          hostPort: number,
        ): Promise<CallOutput> => {
          const portMappings = [{
            hostPort,
            containerPort: 80,
            protocol: "tcp",
          }];
          const output = await hosts.run(
            String(keys["type"]),
            command,
            { ...keys, runtimeConfig: { portMappings } },
            { sandbox, containerId },
          );
          assertEquals(
            output.exitCode,
            0,
            `${command} ${keys["type"]}: ${output.stdout}`,
          );
          return output;
        };
        const add = async (
          sandbox: NetNs,
          containerId: string,
          hostPort: number,
        ): Promise<unknown> => {
          let prevResult: unknown;
          for (const keys of list) {
            const given = prevResult === undefined
              ? keys
              : { ...keys, prevResult };
            prevResult =
              (await run("ADD", given, sandbox, containerId, hostPort)).json;
          }
          return prevResult;
        };
        let first: unknown;
        {
          using old = NetNs.create();
          first = await add(old, "a", 8080);
        }
        const sandbox = hosts.addNetns();
        const prevResult = await add(sandbox, "b", 8081);
        const before = snapshot(sandbox);
        for (const keys of list.toReversed()) {
          const given = hasResult ? { ...keys, prevResult: first } : keys;
          await run("DEL", given, sandbox, "a", 8080);
        }
        assertEquals(snapshot(sandbox), before);
        for (const keys of list) {
          await run("CHECK", { ...keys, prevResult }, sandbox, "b", 8081);
        }
      }, ([name]) => `${name}${hasResult ? "" : " without a result"}`);
    }
  },
);
