/**
 * sbr killed at any moment, and called for many interfaces of one container at
 * once. Run with the compiled executables.
 */

import { assert, assertEquals } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { goPlugin, rootTest } from "../../testing/capabilities.ts";
import { needsBin, startPlugin } from "../../tests/_harness/executables.ts";
import { runIn } from "../../testing/ip_json.ts";
import { createRandom, howOften } from "../../tests/_harness/repetition.ts";
import type { Spawned } from "../../tests/_harness/spawn_in.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import {
  ETH0,
  IPV6,
  NET1,
  TwoNetworks,
} from "../../tests/_harness/two_networks.ts";

/** How many operations are killed. */
const KILLS = howOften(24);
/** No longer than this does one of them take on a machine that is not busy, in ms. */
const LONGEST_MS = 40;

function test(name: string, fn: () => Promise<void>): void {
  rootTest(name, needsBin, fn);
}

/** One call of sbr. */
interface SbrCall {
  /** That of this project if undefined. */
  readonly path?: string;
  readonly command: string;
  readonly ifName: string;
  readonly sandbox: NetNs;
  readonly keys: Readonly<Record<string, unknown>>;
}

function start(
  hosts: TestHosts,
  { ifName, sandbox, keys, ...call }: SbrCall,
): Spawned {
  const type = "sbr";
  const config = { cniVersion: "1.0.0", name: "network", type, ...keys };
  return startPlugin(hosts, { ...call, type, config }, { sandbox, ifName });
}

async function succeed(hosts: TestHosts, call: SbrCall): Promise<void> {
  const { code, stdout, stderr } = await start(hosts, call).output;
  assertEquals(code, 0, stdout + stderr);
}

test("sbr's DEL leaves nothing after a killed ADD", async () => {
  const random = createRandom(3);
  using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6]);
  const { hosts, sandbox } = networks;
  const prevResult = networks.result([
    { address: "192.168.1.209/24", gateway: "192.168.1.1" },
    { address: "2001:db8:1::209/64", gateway: "2001:db8:1::1" },
  ]);
  const call = (command: string): SbrCall => ({
    command,
    ifName: "net1",
    sandbox,
    keys: { prevResult, addSourceHints: random.once(2) },
  });
  const before = networks.state().sort();
  let cutShort = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const adding = call("ADD");
    const command = random.pick(["ADD", "DEL"]);
    if (command === "DEL") await succeed(hosts, adding);
    const killed = start(hosts, { ...adding, command });
    await new Promise((resolve) =>
      setTimeout(resolve, random.below(LONGEST_MS))
    );
    killed.kill();
    if ((await killed.output).code !== 0) cutShort++;
    // Every other time ADD is tried again before it is given up.
    if (random.once(2)) await succeed(hosts, adding);
    await succeed(hosts, { ...adding, command: "DEL" });
    assertEquals(networks.state().sort(), before, `${command} ${kill}`);
  }
  assert(cutShort > 0, "none was killed in time");
});

test("sbr gives each of many concurrently attached interfaces a table", async () => {
  const numbers = Array.from({ length: 12 }, (_, index) => index + 1);
  const go = goPlugin("sbr");
  using hosts = TestHosts.create();
  const { sandbox } = hosts;
  for (const number of numbers) addVethPair(sandbox, number);
  const attach = (number: number): Promise<void> =>
    succeed(hosts, {
      // Where there is the Go plugin, it takes the same lock.
      ...go !== undefined && number % 3 === 0 ? { path: go } : {},
      command: "ADD",
      ifName: `net${number}`,
      sandbox,
      keys: {
        prevResult: {
          cniVersion: "1.0.0",
          ips: [{
            address: `10.0.${number}.2/24`,
            gateway: `10.0.${number}.1`,
          }],
        },
      },
    });
  await Promise.all(numbers.map(attach));
  const rules = runIn(sandbox, "ip", "rule").split("\n")
    .filter((line) => / lookup 1\d\d$/.test(line));
  const tables = rules.map((line) => line.replace(/.* /, ""));
  assertEquals(
    tables.toSorted(),
    numbers.map((number) => `${99 + number}`),
  );
  for (const rule of rules) {
    const [, number = "", table = ""] =
      /from 10\.0\.(\d+)\.2 lookup (\d+)/.exec(rule) ?? [];
    const routes = runIn(sandbox, "ip", "route", "show", "table", table);
    assertEquals(routes.trim().split("\n").map((line) => line.trim()), [
      `default via 10.0.${number}.1 dev net${number}`,
      `10.0.${number}.0/24 dev net${number} proto kernel scope link src 10.0.${number}.2`,
    ]);
  }
  await Promise.all(numbers.map((number) =>
    succeed(hosts, {
      command: "DEL",
      ifName: `net${number}`,
      sandbox,
      keys: {},
    })
  ));
  assertEquals(runIn(sandbox, "ip", "rule").match(/ lookup 1\d\d$/m), null);
});

function addVethPair(sandbox: NetNs, number: number): void {
  const [name, peer] = [`net${number}`, `peer${number}`];
  const lines = [
    `link add ${name} up type veth peer name ${peer}`,
    `link set ${peer} up`,
    `address add 10.0.${number}.2/24 dev ${name}`,
  ];
  for (const line of lines) runIn(sandbox, "ip", ...line.split(" "));
}
