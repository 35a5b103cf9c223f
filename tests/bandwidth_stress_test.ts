/**
 * bandwidth killed at any moment, as on a node that ends badly. Run with the
 * compiled executables.
 */

import { assertEquals } from "@std/assert";
import { ignoreUnless, requireRoot } from "./_harness/capabilities.ts";
import { LimitedCable, WIDE } from "./_harness/limited_cable.ts";
import { createRandom } from "./_harness/random.ts";
import { type Spawned, spawnIn } from "./_harness/spawn_in.ts";
import { TestHosts } from "./_harness/test_hosts.ts";

const BIN = Deno.env.get("CNI_BIN") ?? "";
const needs = ignoreUnless(
  BIN !== "",
  "needs CNI_BIN as `deno task test` sets it",
);

/** How many operations are killed. */
const KILLS = 36;
/** Longer than any of them takes on a busy machine, in ms. */
const LONGEST_MS = 60;

function start(cable: LimitedCable, command: string, keys: object): Spawned {
  const { hosts, ifName } = cable;
  return spawnIn(hosts.host, {
    path: `${BIN}/bandwidth`,
    env: {
      ...hosts.environment(command, { containerId: "dummy", ifName }),
      PATH: "/usr/bin:/bin",
    },
    stdin: JSON.stringify(cable.config(keys)),
  });
}

async function run(
  cable: LimitedCable,
  command: string,
  keys: object,
): Promise<void> {
  const { code, stdout, stderr } = await start(cable, command, keys).output;
  assertEquals(code, 0, stdout + stderr);
}

const { name, ignore } = requireRoot(
  `bandwidth leaves nothing when it is killed and DEL follows${needs.suffix}`,
);

Deno.test({ name, ignore: ignore || needs.ignore }, async (t) => {
  const random = createRandom(1);
  const scopes = {
    "all traffic": {},
    "some subnets": { shapedSubnets: ["10.0.0.0/8", "2001:db8::/32"] },
  };
  for (const [scope, subnets] of Object.entries(scopes)) {
    await t.step(scope, async () => {
      using hosts = TestHosts.create();
      const cable = new LimitedCable(hosts);
      const before = cable.limits();
      const keys = { ...WIDE, ...subnets };
      for (let kill = 0; kill < KILLS; kill++) {
        const command = kill % 2 === 0 ? "ADD" : "DEL";
        if (command === "DEL") await run(cable, "ADD", keys);
        const killed = start(cable, command, keys);
        await new Promise((resolve) =>
          setTimeout(resolve, random.below(LONGEST_MS))
        );
        killed.kill();
        await killed.output;
        // What is left is no hindrance to another ADD either.
        if (random.once(3)) await run(cable, "ADD", keys);
        await run(cable, "DEL", keys);
        assertEquals(cable.limits(), before, `${command} ${kill}`);
      }
    });
  }
});
