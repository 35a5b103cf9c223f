/** ADD that fails at any single step: whatever the step, nothing may be left. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { requireRoot } from "../../tests/_harness/capabilities.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import {
  FaultInjector,
  type Moment,
} from "../../tests/_harness/fault_injector.ts";
import { snapshot } from "../../tests/_harness/ip_json.ts";
import { TestHosts } from "../../tests/_harness/test_hosts.ts";

/** What came of an ADD with a fault. */
type Outcome = "no such step" | "done without" | "undone";

/** Steps that ADD does without where they fail. */
const OPTIONAL =
  /^write .*\/net\/ipv6\/conf\/(eth0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down)$/;

/** Runs ADD with one failing step, and looks at what is left of it. */
async function addWithFault(
  failing: number,
  moment: Moment,
): Promise<Outcome> {
  using hosts = TestHosts.create();
  const config = { ...dualStack(hosts), ipMasq: true };
  const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
  using fault = new FaultInjector(failing, moment);
  const added = await hosts.run("ptp", "ADD", config);
  fault[Symbol.dispose]();
  if (added.exitCode === 0) {
    const step = fault.steps[failing - 1];
    if (step === undefined) return "no such step";
    assertMatch(step, OPTIONAL);
    const withResult = { ...config, prevResult: added.json };
    const checked = await hosts.run("ptp", "CHECK", withResult);
    assertEquals(checked.stdout, "");
    return "done without";
  }
  assertStringIncludes(added.stdout, "injected into");
  assertEquals(added.stderr, "", "an undo step failed");
  assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
  assertEquals(hosts.leases(), []);
  assertEquals(listMasqueraded(hosts.host), []);
  // And what failed once works the next time.
  const again = await hosts.run("ptp", "ADD", config);
  assertEquals(again.exitCode, 0, again.stdout);
  return "undone";
}

/** Lists the addresses that are masqueraded. */
function listMasqueraded({ path }: NetNs): string[] {
  using nftables = Nftables.open(path);
  const table = { family: "inet", name: "cni_plugins_masquerade" } as const;
  return ["source_ip", "source_ip6"].flatMap((map) =>
    nftables.listElements(table, map).map(({ key }) => key.toString())
  );
}

for (const moment of ["instead", "afterwards"] as const) {
  Deno.test(
    requireRoot(`ptp.add() leaves nothing when a step fails, ${moment}`),
    async (t) => {
      const outcomes: Outcome[] = [];
      while (outcomes.at(-1) !== "no such step") {
        const failing = outcomes.length + 1;
        assert(failing < 100, "ADD does not end");
        await t.step(`step ${failing}`, async () => {
          outcomes.push("no such step");
          outcomes[failing - 1] = await addWithFault(failing, moment);
        });
      }
      // The links of both ends, four addresses, six routes, two leases, ...
      const undone = outcomes.filter((outcome) => outcome === "undone");
      assert(undone.length > 20, `only ${undone.length} steps were undone`);
    },
  );
}
