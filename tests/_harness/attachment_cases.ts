/**
 * What all plugins that attach by a veth pair have in common, as tests of each.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { writeFakeIpam } from "./fake_ipam.ts";
import { canPing, ipJson, runIn } from "../../testing/ip_json.ts";
import { type Keys, PluginScene } from "./plugin_scene.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";

/**
 * Registers the tests of ADD that need nothing but a configuration.
 *
 * @param makeConfig Returns one that attaches by 10.1.2.2/24 and
 * 2001:db8:1::2/64, or by what another IPAM plugin says
 * @param routeFlags What `ip` says of routes over other gateways
 * @param stateOf Reads the state in another way
 */
export function testAttaching(
  type: string,
  makeConfig: (hosts: TestHosts, extras?: Keys) => Keys,
  routeFlags: readonly string[],
  stateOf?: (hosts: TestHosts) => unknown,
): void {
  const makeScene = (): PluginScene =>
    new PluginScene(type, makeConfig, stateOf);
  const makeSceneWith = (result: unknown): PluginScene =>
    new PluginScene(type, (hosts) => {
      const ipam = writeFakeIpam(hosts.path, { ADD: { stdout: result } });
      return makeConfig(hosts, { ipam: { type: ipam.type } });
    }, stateOf);
  const test = (name: string, fn: () => Promise<void>): void =>
    rootTest(`${type}.add() ${name}`, fn);

  test("leaves the attachment as it is when it is called again", async () => {
    using scene = makeScene();
    await scene.succeed("ADD");
    const before = scene.state;
    await scene.fail("ADD", [4, 'Cannot add interface "eth0"']);
    assertEquals(scene.state, before);
  });

  test("turns IPv6 on where the runtime turned it off", async () => {
    using scene = makeScene();
    const { sandbox } = scene.hosts;
    for (const name of ["all", "default", "lo"]) {
      const key = `net.ipv6.conf.${name}.disable_ipv6=1`;
      runIn(sandbox, "sysctl", "-qw", key);
    }
    await scene.succeed("ADD");
    assertEquals(canPing(sandbox, "2001:db8:1::1"), true);
  });

  test("succeeds once when it is called many times at once", async () => {
    const ips = [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }];
    using scene = makeSceneWith({ ips });
    const calls = [1, 2, 3, 4].map(() => scene.run("ADD"));
    const codes = (await Promise.all(calls)).map(({ exitCode, json }) =>
      exitCode === 0 ? 0 : json.code
    );
    assertEquals(codes.sort(), [0, 4, 4, 4]);
    assertEquals(canPing(scene.hosts.sandbox, "10.0.0.1"), true);
    await scene.succeed("DEL");
  });

  rootTest(
    `${type}.add() refuses routes that cannot be, and makes nothing`,
    async (t) => {
      for (const [keys, message] of BAD_ROUTES) {
        await t.step(message, async () => {
          const routes = [
            { dst: "10.1.0.0/16" },
            { dst: "10.2.0.0/16", ...keys },
          ];
          using scene = new PluginScene(type, (hosts) => {
            const ipam = { ...hosts.hostLocal("10.1.2.0/24"), routes };
            return makeConfig(hosts, { ipam });
          }, stateOf);
          const before = scene.state;
          const text = `IPAM plugin returned route 10.2.0.0/16 with ${message}`;
          await scene.fail("ADD", [7, text]);
          assertEquals(scene.state, before);
        });
      }
    },
  );

  test("honours every key of a route", async () => {
    using scene = makeSceneWith({
      cniVersion: "1.1.0",
      ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }],
      routes: [
        { dst: "10.1.0.0/16", mtu: 1300, advmss: 1200, priority: 7 },
        { dst: "10.2.0.0/16", table: 5000 },
        { dst: "10.3.0.0/16", gw: "10.0.0.77" },
        { dst: "10.4.5.6/16" },
        { dst: "10.4.0.0/16" },
        { dst: "0.0.0.0/0" },
      ],
    });
    const { json: prevResult } = await scene.succeed("ADD");
    const show = (...args: string[]): Keys[] =>
      ipJson(scene.hosts.sandbox, "route", "show", ...args);
    const [[metrics], [other], [gateway]] = [
      show("10.1.0.0/16"),
      show("table", "5000"),
      show("10.3.0.0/16"),
    ];
    assertEquals(metrics?.["metric"], 7);
    assertEquals(metrics?.["metrics"], [{ mtu: 1300, advmss: 1200 }]);
    assertEquals(other?.["gateway"], "10.0.0.1");
    assertEquals(gateway?.["gateway"], "10.0.0.77");
    assertEquals(gateway?.["flags"], routeFlags);
    for (const dst of ["10.4.0.0/16", "default"]) {
      assertEquals(show(dst).length, 1, dst);
    }
    await scene.succeed("CHECK", { prevResult });
  });
}

/** Routes with a number out of the kernel's range, and the error. */
const BAD_ROUTES: readonly [keys: Keys, message: string][] = [
  [{ table: -1 }, "table -1: expected 0 to 4294967295"],
  [{ table: 4294967296 }, "table 4294967296: expected 0 to 4294967295"],
  [{ scope: 300 }, "scope 300: expected 0 to 255"],
  [{ scope: -1 }, "scope -1: expected 0 to 255"],
  [{ priority: -1 }, "priority -1: expected 0 to 4294967295"],
  [{ mtu: -1 }, "mtu -1: expected 0 to 4294967295"],
  [{ advmss: 2 ** 40 }, "advmss 1099511627776: expected 0 to 4294967295"],
];

/** Values of CNI_NETNS for a deleted container, and one that is not. */
const NETNS: readonly [name: string, pathOf: (hosts: TestHosts) => string][] = [
  ["the sandbox's path", ({ sandbox }) => sandbox.path],
  ["no CNI_NETNS", () => ""],
  ["a path that is not there", () => "/run/netns/never-made"],
  ["a process that has ended", () => "/proc/4194304/ns/net"],
  ["the plain file that a reboot leaves", ({ directory }) => {
    Deno.writeTextFileSync(`${directory}/plain`, "");
    return `${directory}/plain`;
  }],
  ["a link that leads to itself", ({ directory }) => {
    Deno.symlinkSync(`${directory}/loop`, `${directory}/loop`);
    return `${directory}/loop`;
  }],
  ["a FIFO that nobody writes to", ({ host, directory }) => {
    runIn(host, "mkfifo", `${directory}/fifo`);
    return `${directory}/fifo`;
  }],
];

/** Attaches and detaches, whatever is left to find the attachment by. */
export async function detachByWhatIsLeft(
  t: Deno.TestContext,
  makeScene: () => PluginScene | Promise<PluginScene>,
): Promise<void> {
  for (const [name, pathOf] of NETNS) {
    await t.step(name, async () => {
      using scene = await makeScene();
      const before = scene.state;
      await scene.succeed("ADD");
      const env = { CNI_NETNS: pathOf(scene.hosts) };
      await scene.succeed("DEL", {}, { env });
      assertEquals(scene.state, before);
      await scene.succeed("DEL", {}, { env });
    });
  }
}
