import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { emptyResult, type Result } from "../cni/result/result.ts";
import { Cidr } from "../net/cidr.ts";
import { rootTest } from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { getResultIps, type PodIps, readPodIps } from "./pod_ips.ts";
import { testRows } from "../tests/_harness/table.ts";

const POD = { containerId: "c1" };

/** Builds a result of interfaces, and addresses with the index of theirs. */
function resultOf(
  names: readonly string[],
  ips: readonly (readonly [address: string, index?: number])[],
): Result {
  return {
    ...emptyResult(),
    interfaces: names.map((name) => ({ name })),
    ips: ips.map(([address, index]) => ({
      address: Cidr.parse(address),
      interface: index,
    })),
  };
}

function textsOf({ ip, ips }: PodIps): string[] {
  assertEquals(ip, ips[0]);
  return ips.map(String);
}

testRows("getResultIps() lists the addresses of eth0, IPv4 first", [
  [
    "its own",
    resultOf(["veth1", "eth0"], [["10.1.2.3/24", 1], ["10.9.9.9/24", 0]]),
    ["10.1.2.3"],
  ],
  ["nobody's", resultOf([], [["10.1.2.3/24"]]), ["10.1.2.3"]],
  [
    "of both families",
    resultOf(["eth0"], [
      ["fd00::2/64", 0],
      ["10.1.2.3/24", 0],
      ["fd00::1/64", 0],
      ["10.1.2.2/24", 0],
    ]),
    ["10.1.2.3", "10.1.2.2", "fd00::2", "fd00::1"],
  ],
], ([, result, ips]: [string, Result, string[]]) => {
  assertEquals(textsOf(getResultIps(result, "net1", POD)), ips);
});

testRows("getResultIps() fails without an address, as containerd does", [
  ["no address", resultOf(["eth0"], [])],
  ["another interface's", resultOf(["eth0", "net1"], [["10.1.2.3/24", 1]])],
  ["an interface's that is not there", resultOf([], [["10.1.2.3/24", 7]])],
], ([, result]: [string, Result]) => {
  const error = assertThrows(
    () => getResultIps(result, "net1", POD),
    CniError,
  );
  assertEquals(
    `${error}`,
    'failed to find network info for sandbox "c1"; ' +
      'the result of network "net1" has no IP address of "eth0"',
  );
});

rootTest("readPodIps() reads the addresses that others can reach", () => {
  using hosts = TestHosts.create();
  const ip = (...args: string[]): void =>
    void runIn(hosts.sandbox, "ip", ...args);
  ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth1");
  ip("link", "set", "eth0", "up");
  for (
    const [address, device] of [
      ["fd00::2/64", "eth0"],
      ["169.254.1.1/16", "eth0"],
      ["10.1.2.3/24", "eth0"],
      ["10.1.2.9/24", "eth0"],
      ["10.7.7.7/24", "eth1"],
    ] as const
  ) ip("address", "add", address, "dev", device, "scope", "global");
  const { path: netns } = hosts.sandbox;
  assertEquals(textsOf(readPodIps({ netns })), [
    "10.1.2.3",
    "10.1.2.9",
    "fd00::2",
  ]);
});

rootTest("readPodIps() reports why there are no addresses", () => {
  using hosts = TestHosts.create();
  const { path: netns } = hosts.sandbox;
  const read = (): CniError =>
    assertThrows(() => readPodIps({ netns }), CniError);
  const head = `Cannot find an IP address in network namespace "${netns}": `;
  assertEquals(read().message, `${head}there is no interface "eth0"`);
  runIn(hosts.sandbox, "ip", "link", "add", "eth0", "type", "veth");
  runIn(hosts.sandbox, "ip", "link", "set", "eth0", "up");
  assertEquals(
    read().message,
    `${head}interface "eth0" has no global address`,
  );
});

Deno.test("readPodIps() reports a deleted namespace", () => {
  const error = assertThrows(
    () => readPodIps({ netns: "/run/netns/no-such-namespace" }),
    CniError,
  );
  assertEquals(error.code, 8);
  assertStringIncludes(
    `${error}`,
    'Cannot open network namespace "/run/netns/no-such-namespace"',
  );
});
