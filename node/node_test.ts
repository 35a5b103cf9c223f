import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { Cidr } from "../net/cidr.ts";
import type { NetworkChoice } from "./choose_network.ts";
import { buildLoopback, getReadyNetwork } from "./node.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { rootTest } from "../testing/capabilities.ts";
import { ipJson } from "../testing/ip_json.ts";
import { listPeers } from "../tests/_harness/parity.ts";
import { TestHosts } from "../testing/test_hosts.ts";

const NETWORK = { list: buildLoopback(), path: "/etc/a", capabilities: [] };
const CHOICE: NetworkChoice = {
  network: NETWORK,
  readable: undefined,
  skipped: [],
  loopbackError: undefined,
  isTransient: false,
};
const NODE = { confDir: "/etc/cni/net.d", podCidrs: [] };

Deno.test("getReadyNetwork() returns the network", () => {
  assertStrictEquals(getReadyNetwork(NODE, CHOICE), NETWORK);
});

Deno.test("getReadyNetwork() returns a network whose ranges are known", () => {
  const network = { ...NETWORK, capabilities: ["ipRanges"] };
  const node = { ...NODE, podCidrs: [Cidr.parse("10.1.2.0/24")] };
  assertStrictEquals(getReadyNetwork(node, { ...CHOICE, network }), network);
});

Deno.test("getReadyNetwork() reports why no network is ready, in the kubelet's words", async (t) => {
  const no = new CniError(7, "no", { details: "why" });
  const rows: [name: string, choice: Partial<NetworkChoice>, text: string][] = [
    [
      "an empty directory",
      { network: undefined },
      "cni config uninitialized; " +
      'there is no network configuration in "/etc/cni/net.d"',
    ],
    [
      "files that cannot be used",
      {
        network: undefined,
        skipped: [{ path: "/a", error: no }, { path: "/b", error: no }],
      },
      'cni config uninitialized; "/a": no: why; "/b": no: why',
    ],
    [
      "no PodCIDR",
      { network: { ...NETWORK, capabilities: ["ipRanges"] } },
      "cni config needs ipRanges but no PodCIDR set",
    ],
    [
      "no loopback",
      { loopbackError: no },
      "cni loopback uninitialized; no: why",
    ],
  ];
  await eachRow(t, rows, ([, choice, text]) => {
    const error = assertThrows(
      () => getReadyNetwork(NODE, { ...CHOICE, ...choice }),
      CniError,
    );
    assertEquals([error.code, `${error}`], [50, text]);
  });
});

Deno.test("buildLoopback() uses the name that other runtimes use", () => {
  const { name, plugins } = buildLoopback();
  assertEquals([name, plugins.map(({ type }) => type)], [
    "cni-loopback",
    ["loopback"],
  ]);
});

for (const peer of listPeers("buildLoopback()")) {
  rootTest(`buildLoopback() suits ${peer.name}`, () => {
    using hosts = TestHosts.create();
    const { name, cniVersion, plugins } = buildLoopback();
    const config = { ...plugins[0]?.document, name, cniVersion };
    for (const command of ["ADD", "CHECK", "DEL"]) {
      const { exitCode, json: result } = hosts.exec(
        `${peer.directory}/loopback`,
        command,
        {
          ...config,
          ...command === "ADD" ? {} : { prevResult: PREV_RESULT },
        },
        { ifName: "lo" },
      );
      assertEquals(exitCode, 0, command);
      if (command === "ADD") assertEquals(result.cniVersion, cniVersion);
    }
    const [lo] = ipJson(hosts.sandbox, "link", "show", "lo");
    assertEquals(lo.flags.includes("UP"), false);
  });
}

const PREV_RESULT = {
  cniVersion: "0.4.0",
  interfaces: [{ name: "lo" }],
  ips: [{ version: "4", interface: 0, address: "127.0.0.1/8" }],
};
