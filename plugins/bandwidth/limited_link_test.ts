import { assertEquals } from "@std/assert";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  assertFailure,
  assertSuccess,
  HOST_END,
  LimitedPair,
  WIDE,
} from "./testing/limited_pair.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

rootTest("bandwidth.add() changes nothing if it fails", async (t) => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  const pair = new LimitedPair(hosts);
  const third = hosts.addNetns();
  runIn(sandbox, "ip", "link", "add", "bridge0", "type", "bridge");
  runIn(sandbox, "ip", "tuntap", "add", "tap0", "mode", "tap");
  runIn(sandbox, "ip", "link", "add", "in0", "type", "veth", "peer", "in1");
  {
    using away = Rtnl.open(third.path);
    away.link.addVeth({
      name: "away0",
      peer: { netns: sandbox, name: "out0" },
    });
  }
  const before = pair.limits();
  const rows: [name: string, keys: object, ifName: string, text: string][] = [
    [
      "no prevResult",
      { prevResult: undefined },
      "container-veth",
      "must be called as chained plugin",
    ],
    [
      "no interfaces",
      { prevResult: { cniVersion: "1.1.0", interfaces: [] } },
      "container-veth",
      "no interfaces provided",
    ],
    [
      "no such interface",
      {},
      "eth9",
      "container interface eth9 has no veth peer: there is no such interface",
    ],
    [
      "a bridge",
      {},
      "bridge0",
      'container interface bridge0 has no veth peer: its kind is "bridge"',
    ],
    [
      "a tap",
      {},
      "tap0",
      'container interface tap0 has no veth peer: its kind is "tun"',
    ],
    ["both ends in the sandbox", {}, "in0", "veth peer with index"],
    ["the other end in a third namespace", {}, "out0", "veth peer with index"],
    [
      "a host's end that prevResult does not list",
      { prevResult: { interfaces: [{ name: "other" }] } },
      "container-veth",
      "no veth peer of container interface found in host ns",
    ],
    [
      "a host's end that prevResult lists as the container's",
      { prevResult: { interfaces: [{ name: HOST_END, sandbox: "/x" }] } },
      "container-veth",
      "no veth peer of container interface found in host ns",
    ],
  ];
  await eachRow(t, rows, async ([, keys, ifName, text]) => {
    const all = { ...WIDE, ...keys };
    assertFailure(await pair.run("ADD", all, { ifName }), 7, text);
    assertEquals(pair.limits(), before);
    assertSuccess(await pair.run("DEL", all, { ifName }));
  });
  await t.step("no namespace", async () => {
    const env = { CNI_NETNS: "/run/netns/no-such-namespace" };
    const output = await pair.run("ADD", WIDE, { env });
    assertFailure(output, 8, "Cannot open network namespace");
  });
  assertEquals(ipJson(host, "link").length, 2);
});
