/**
 * bandwidth killed at any moment, as on a node that ends badly. Run with the
 * compiled executables.
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { needsBin, startPlugin } from "../../tests/_harness/executables.ts";
import { killByTurns } from "../../tests/_harness/kills.ts";
import { LimitedPair, WIDE } from "./testing/limited_pair.ts";
import { createRandom, howOften } from "../../tests/_harness/repetition.ts";
import type { Spawned } from "../../tests/_harness/spawn_in.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** How many operations are killed. */
const KILLS = howOften(16);

function start(pair: LimitedPair, command: string, keys: object): Spawned {
  const { hosts, ifName } = pair;
  const call = { type: "bandwidth", command, config: pair.config(keys) };
  return startPlugin(hosts, call, { containerId: "dummy", ifName });
}

const name = "bandwidth leaves nothing when it is killed and DEL follows";

rootTest(name, needsBin, async (t) => {
  const random = createRandom(1);
  const scopes = {
    "all traffic": {},
    "some subnets": { shapedSubnets: ["10.0.0.0/8", "2001:db8::/32"] },
  };
  await eachRow(t, Object.entries(scopes), async ([, subnets]) => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const keys = { ...WIDE, ...subnets };
    const succeed = async (command: string): Promise<void> => {
      const { code, stdout, stderr } = await start(pair, command, keys)
        .output;
      assertEquals(code, 0, stdout + stderr);
    };
    await killByTurns({
      start: (command) => start(pair, command, keys),
      succeed,
      remains: () => pair.limits(),
    }, {
      random,
      count: KILLS,
      // What is left does not hinder another ADD either.
      afterKill: async () => {
        if (random.once(3)) await succeed("ADD");
      },
    });
  });
});
