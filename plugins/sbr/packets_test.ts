/**
 * sbr, shown by packets: a reply goes back by the interface on which the
 * request has come. Each scene is tried without sbr first, where it does not.
 *
 * The packets are TCP's: an echo reply of IPv6 goes back where the request has
 * come in any case.
 */

import { assertEquals } from "@std/assert";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { spawnIn } from "../../tests/_harness/spawn_in.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { TwoNetworks } from "../../tests/_harness/two_networks.ts";

const PORT = 7000;
const needs = ignoreUnless(
  ["bash", "timeout", "nft"].every(hasCommand),
  "needs bash, timeout and nft",
);

function test(name: string, fn: () => Promise<void>): void {
  rootTest(name, needs, fn);
}

/** Lets connections in: the kernel accepts them by itself. */
function listen(netns: NetNs): Deno.Listener {
  return inNetns(netns, () => Deno.listen({ hostname: "::", port: PORT }));
}

/** Returns which connections come about, all tried at once. */
function connect(
  ...attempts: readonly [from: NetNs, address: string][]
): Promise<boolean[]> {
  const env = { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin" };
  return Promise.all(attempts.map(async ([netns, address]) => {
    const script = `exec 3<>/dev/tcp/${address}/${PORT}`;
    const args = ["1", "bash", "-c", script];
    const child = spawnIn(netns, { path: "timeout", args, env, stdin: "" });
    return (await child.output).code === 0;
  }));
}

/**
 * Asserts which connections come about. One that must may take longer than its
 * second on a busy machine; one that must not never comes.
 */
async function assertConnects(
  tryAll: () => Promise<boolean[]>,
  expected: readonly boolean[],
): Promise<void> {
  let found: readonly boolean[] = [];
  await eventually(
    `connections come about: ${expected}`,
    async () => `${found = await tryAll()}` === `${expected}`,
    () => `and not: ${found}`,
  );
}

/** Runs command lines of `ip` in a namespace. */
function ip(netns: NetNs, ...lines: string[]): void {
  for (const line of lines) runIn(netns, "ip", ...line.split(" "));
}

async function succeed(
  networks: TwoNetworks,
  command: string,
  keys: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { exitCode, stdout } = await networks.run("sbr", command, keys);
  assertEquals(exitCode, 0, stdout);
}

const LINK_LOCAL = [
  "address add fe80::2/64 dev eth0 nodad",
  "address add fe80::2/64 dev net1 nodad",
];

test("sbr sends replies to each of two networks with the same subnet", async () => {
  using networks = new TwoNetworks([
    ...LINK_LOCAL,
    "address add 10.0.0.2/24 dev eth0",
    "address add 2001:db8::2/64 dev eth0 nodad",
    "address add 10.0.0.3/24 dev net1",
    "address add 2001:db8::3/64 dev net1 nodad",
  ]);
  using _listener = listen(networks.sandbox);
  for (const router of Object.values(networks.routers)) {
    ip(
      router,
      "address add 10.0.0.1/24 dev lan",
      "address add 2001:db8::1/64 dev lan nodad",
    );
  }
  const { eth0, net1 } = networks.routers;
  const tryAll = (): Promise<boolean[]> =>
    connect(
      [eth0, "10.0.0.2"],
      [eth0, "2001:db8::2"],
      [net1, "10.0.0.3"],
      [net1, "2001:db8::3"],
    );
  await assertConnects(tryAll, [true, true, false, false]);
  for (const extras of [{}, { addSourceHints: true }]) {
    const prevResult = networks.result([
      { address: "10.0.0.3/24", gateway: "10.0.0.1" },
      { address: "2001:db8::3/64", gateway: "2001:db8::1" },
    ]);
    await succeed(networks, "ADD", { prevResult, ...extras });
    await assertConnects(tryAll, [true, true, true, true]);
    await succeed(networks, "DEL", { prevResult, ...extras });
    await assertConnects(tryAll, [true, true, false, false]);
  }
});

test("sbr sends replies through the router of a second network", async () => {
  using networks = new TwoNetworks([
    ...LINK_LOCAL,
    "address add 10.1.0.2/24 dev eth0",
    "address add 2001:db8:1::2/64 dev eth0 nodad",
    "route add default via 10.1.0.1",
    "route add default via 2001:db8:1::1",
    "address add 10.2.0.2/24 dev net1",
    "address add 2001:db8:2::2/64 dev net1 nodad",
  ]);
  const { eth0, net1 } = networks.routers;
  using _container = listen(networks.sandbox);
  using _near = listen(eth0);
  // Behind each router somebody of the same networks.
  beyond(eth0, 1);
  beyond(net1, 2);
  const tryAll = (): Promise<boolean[]> =>
    connect(
      [eth0, "10.1.0.2"],
      [eth0, "2001:db8:1::2"],
      [net1, "10.2.0.2"],
      [net1, "2001:db8:2::2"],
      // Who chooses no address leaves by the first network, as before.
      [networks.sandbox, "198.51.100.1"],
      [networks.sandbox, "2001:db8:ff::1"],
    );
  await assertConnects(tryAll, [true, true, false, false, true, true]);
  const prevResult = networks.result([
    { address: "10.2.0.2/24", gateway: "10.2.0.1" },
    { address: "2001:db8:2::2/64", gateway: "2001:db8:2::1" },
  ]);
  await succeed(networks, "ADD", { prevResult });
  await assertConnects(tryAll, [true, true, true, true, true, true]);
});

/** Creates a router, and has packets to its network sent from behind it. */
function beyond(router: NetNs, number: 1 | 2): void {
  const [host4, host6] = [`198.51.100.${number}`, `2001:db8:ff::${number}`];
  ip(
    router,
    `address add 10.${number}.0.1/24 dev lan`,
    `address add 2001:db8:${number}::1/64 dev lan nodad`,
    `address add ${host4} dev lo`,
    // Without it, the address is no source until the kernel has looked at it.
    `address add ${host6} dev lo nodad`,
    `route replace 10.${number}.0.2 dev lan src ${host4}`,
    `route replace 2001:db8:${number}::2 dev lan src ${host6}`,
  );
}

test("sbr after ptp works with strict reverse path filters on the host", async () => {
  using hosts = TestHosts.create();
  const outside = connectOutside(hosts);
  using _listener = listen(hosts.sandbox);
  const run = async (
    command: string,
    config: Readonly<Record<string, unknown>>,
  ): Promise<unknown> => {
    const type = String(config["type"]), ifName = String(config["name"]);
    const output = await hosts.run(type, command, config, { ifName });
    assertEquals(output.exitCode, 0, output.stdout);
    return output.json;
  };
  const ptp = (
    name: string,
    number: number,
    routes: readonly unknown[] = [],
  ): Record<string, unknown> => ({
    cniVersion: "1.1.0",
    name,
    type: "ptp",
    ipam: {
      ...hosts.hostLocal(`10.${number}.0.0/24`, `2001:db8:${number}::/64`),
      routes,
    },
  });
  await run("ADD", ptp("eth0", 1, [{ dst: "0.0.0.0/0" }, { dst: "::/0" }]));
  const prevResult = await run("ADD", ptp("net1", 2));
  const tryAll = (): Promise<boolean[]> =>
    connect(
      [outside, "10.1.0.2"],
      [outside, "10.2.0.2"],
      [outside, "2001:db8:1::2"],
      [outside, "2001:db8:2::2"],
    );
  await assertConnects(tryAll, [true, false, true, false]);
  const sbr = { ...ptp("net1", 2), type: "sbr", prevResult };
  await run("ADD", sbr);
  await run("CHECK", sbr);
  await assertConnects(tryAll, [true, true, true, true]);
  // Nor does the interface's own plugin miss its routes.
  await run("CHECK", { ...ptp("net1", 2), prevResult });
});

/** Adds a namespace behind a host that takes nothing from where it would not send it. */
function connectOutside(hosts: TestHosts): NetNs {
  const outside = hosts.addNetns();
  using host = Rtnl.open(hosts.host.path);
  using rtnl = Rtnl.open(outside.path);
  const peer = { netns: rtnl.netns, name: "eth0" };
  host.link.addVeth({ name: "out0", peer });
  ip(
    hosts.host,
    "address add 192.0.2.1/24 dev out0",
    "address add 2001:db8:ff::1/64 dev out0 nodad",
  );
  ip(
    outside,
    "link set eth0 up",
    "address add 192.0.2.2/24 dev eth0",
    "address add 2001:db8:ff::2/64 dev eth0 nodad",
    "route add default via 192.0.2.1",
    "route add default via 2001:db8:ff::1",
  );
  const nft = (...args: string[]): string => runIn(hosts.host, "nft", ...args);
  const chain = "inet strict prerouting";
  nft("add table inet strict");
  nft(`add chain ${chain} { type filter hook prerouting priority -300; }`);
  nft(`add rule ${chain} meta l4proto tcp fib saddr . iif oif missing drop`);
  return outside;
}
