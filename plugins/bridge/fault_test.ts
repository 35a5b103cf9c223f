/** ADD that fails at any single step: whatever the step, nothing may be left. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { requireRoot } from "../../tests/_harness/capabilities.ts";
import { bridgeConfig, occupy } from "../../tests/_harness/bridge_network.ts";
import {
  FaultInjector,
  type Moment,
} from "../../tests/_harness/fault_injector.ts";
import { ipJson, runIn, snapshot } from "../../tests/_harness/ip_json.ts";
import { type CallOutput, TestHosts } from "../../tests/_harness/test_hosts.ts";

/** What came of an ADD with a fault. */
type Outcome = "no such step" | "done without" | "undone";

/** Steps that ADD does without where they fail. */
const OPTIONAL =
  /^write .*\/conf\/(eth0|br0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down|arp_notify|ndisc_notify)$/;

/** Which host it is: one that has the bridge, with a container, or one without. */
type Before = "with the bridge" | "without it";

/** A host on which ADD fails. */
class Fixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly config = bridgeConfig(this.hosts, {
    ipMasq: true,
    macspoofchk: true,
    hairpinMode: true,
  });
  #before: unknown;

  async prepare(before: Before): Promise<void> {
    if (before === "with the bridge") await occupy(this.hosts);
    this.#before = this.#stock(before);
  }

  /** Asserts that nothing is left, but for what all attachments share. */
  assertUndone(before: Before): void {
    assertEquals(this.#stock(before), this.#before);
    assertEquals(this.hosts.leases(), []);
    const rules = runIn(this.hosts.host, "nft", "list", "ruleset");
    assert(!rules.includes("test-container"), rules);
  }

  /** The bridge that a first ADD makes stays, with the gateway's addresses. */
  #stock(before: Before): unknown {
    const { host, sandbox } = this.hosts;
    if (before === "with the bridge") {
      return [snapshot(host), snapshot(sandbox)];
    }
    const names: string[] = ipJson(host, "link").map((
      { ifname }: { ifname: string },
    ) => ifname);
    return [names.filter((name) => name !== "br0"), snapshot(sandbox)];
  }

  run(
    command: string,
    extras: Record<string, unknown> = {},
  ): Promise<CallOutput> {
    return this.hosts.run("bridge", command, { ...this.config, ...extras });
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Runs ADD with one failing step, and looks at what is left of it. */
async function addWithFault(
  failing: number,
  moment: Moment,
  before: Before,
): Promise<Outcome> {
  using fixture = new Fixture();
  await fixture.prepare(before);
  using fault = new FaultInjector(failing, moment);
  const added = await fixture.run("ADD");
  fault[Symbol.dispose]();
  if (added.exitCode === 0) {
    const step = fault.steps[failing - 1];
    if (step === undefined) return "no such step";
    assertMatch(step, OPTIONAL);
    const checked = await fixture.run("CHECK", { prevResult: added.json });
    assertEquals(checked.stdout, "");
    return "done without";
  }
  assertStringIncludes(added.stdout, "injected into");
  assertEquals(added.stderr, "", "an undo step failed");
  fixture.assertUndone(before);
  // And what failed once works the next time.
  const again = await fixture.run("ADD");
  assertEquals(again.exitCode, 0, again.stdout);
  return "undone";
}

for (const before of ["with the bridge", "without it"] as const) {
  for (const moment of ["instead", "afterwards"] as const) {
    Deno.test(
      requireRoot(
        `bridge.add() leaves nothing when a step fails, ${moment}, on a host ${before}`,
      ),
      async (t) => {
        const outcomes: Outcome[] = [];
        while (outcomes.at(-1) !== "no such step") {
          const failing = outcomes.length + 1;
          assert(failing < 150, "ADD does not end");
          await t.step(`step ${failing}`, async () => {
            outcomes.push("no such step");
            outcomes[failing - 1] = await addWithFault(failing, moment, before);
          });
        }
        // The links of both ends, addresses, routes, rules, leases, ...
        const undone = outcomes.filter((outcome) => outcome === "undone");
        assert(undone.length > 25, `only ${undone.length} steps were undone`);
      },
    );
  }
}
