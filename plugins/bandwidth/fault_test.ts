/**
 * ADD that fails at any single step, or is killed there: whatever the step,
 * nothing may be left, at the latest by DEL.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { requireRoot } from "../../tests/_harness/capabilities.ts";
import {
  FaultInjector,
  type Moment,
} from "../../tests/_harness/fault_injector.ts";
import { runIn } from "../../tests/_harness/ip_json.ts";
import { LimitedCable, WIDE } from "../../tests/_harness/limited_cable.ts";
import { TestHosts } from "../../tests/_harness/test_hosts.ts";

const SUBNETS = { unshapedSubnets: ["10.0.0.0/8", "2001:db8::/32"] };
/** What is there before, and what is asked for. */
const SCENARIOS: Readonly<
  Record<string, { before: string[]; keys: object; minSteps: number }>
> = {
  "all traffic": { before: [], keys: WIDE, minSteps: 9 },
  "some subnets": {
    before: [],
    keys: { ...WIDE, ...SUBNETS },
    minSteps: 21,
  },
  "beside another program": {
    before: ["tc qdisc add dev host-veth clsact"],
    keys: WIDE,
    minSteps: 9,
  },
};

/** A cable, as it was before it is limited. */
function connect(hosts: TestHosts, commands: readonly string[]): LimitedCable {
  const cable = new LimitedCable(hosts);
  for (const command of commands) {
    const [program = "", ...args] = command.split(" ");
    runIn(hosts.host, program, ...args);
  }
  return cable;
}

/** Runs ADD with one failing step; says whether there was such a step. */
async function addWithFault(
  { before, keys }: typeof SCENARIOS[string],
  failing: number,
  moment: Moment,
): Promise<boolean> {
  using hosts = TestHosts.create();
  const cable = connect(hosts, before);
  const state = cable.limits();
  using fault = new FaultInjector(failing, moment);
  const added = await cable.run("ADD", keys);
  fault[Symbol.dispose]();
  if (fault.steps.length < failing) {
    assertEquals(added.exitCode, 0, added.stdout);
    return false;
  }
  assertStringIncludes(added.stdout, "injected into");
  assertEquals(added.stderr, "", "an undo step failed");
  assertEquals(cable.limits(), state);
  // And what failed once works the next time.
  await cable.add(keys);
  return true;
}

/** Repeats something for step 1, 2, ... until there is no such step. */
async function eachStep(
  t: Deno.TestContext,
  minSteps: number,
  work: (step: number) => Promise<boolean>,
): Promise<void> {
  let isLast = false;
  for (let step = 1; !isLast; step++) {
    assert(step < 100, "ADD does not end");
    await t.step(`step ${step}`, async () => {
      isLast = true;
      isLast = !await work(step);
    });
    if (isLast) assert(step > minSteps, `there are only ${step - 1} steps`);
  }
}

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  for (const moment of ["instead", "afterwards"] as const) {
    Deno.test(
      requireRoot(
        `bandwidth.add() leaves nothing when a step fails, ${moment}: ${name}`,
      ),
      (t) =>
        eachStep(
          t,
          scenario.minSteps,
          (step) => addWithFault(scenario, step, moment),
        ),
    );
  }
}

/** Ends all that goes through netlink after some requests, as kill -9 does. */
class Crash implements Disposable {
  readonly #stack = new DisposableStack();
  #left: number;
  /** Whether it came to that. */
  hasHappened = false;

  constructor(requests: number) {
    this.#left = requests;
    const request = NetlinkSocket.prototype.request;
    const dump = NetlinkSocket.prototype.dump;
    const count = (): void => {
      if (this.#left-- > 0) return;
      this.hasHappened = true;
      throw new Error("killed");
    };
    NetlinkSocket.prototype.request = function (...args): never {
      count();
      return request.apply(this, args) as never;
    };
    NetlinkSocket.prototype.dump = function (...args): never {
      count();
      return dump.apply(this, args) as never;
    };
    this.#stack.defer(() => {
      NetlinkSocket.prototype.request = request;
      NetlinkSocket.prototype.dump = dump;
    });
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** Kills ADD after some requests; says whether it came to that. */
async function killAdd(
  cable: LimitedCable,
  keys: object,
  requests: number,
): Promise<boolean> {
  using crash = new Crash(requests);
  await cable.run("ADD", keys);
  return crash.hasHappened;
}

for (const [name, { before, keys, minSteps }] of Object.entries(SCENARIOS)) {
  Deno.test(
    requireRoot(`bandwidth gets over an ADD that was killed: ${name}`),
    (t) =>
      eachStep(t, minSteps, async (step) => {
        using hosts = TestHosts.create();
        const cable = connect(hosts, before);
        const state = cable.limits();
        const wasKilled = await killAdd(cable, keys, step - 1);
        assertEquals((await cable.run("DEL", keys)).exitCode, 0);
        assertEquals(cable.limits(), state, "after DEL");

        await killAdd(cable, keys, step - 1);
        const withResult = { ...keys, prevResult: await cable.add(keys) };
        const checked = await cable.run("CHECK", withResult);
        assertEquals(checked.stdout, "", "after ADD again");
        assertEquals((await cable.run("DEL", withResult)).exitCode, 0);
        assertEquals(cable.limits(), state, "after ADD again and DEL");

        await killAdd(cable, keys, step - 1);
        const env = { CNI_NETNS: "/run/netns/none" };
        await cable.run("DEL", keys, { env });
        const left = cable.limits().links;
        assertEquals(left, ["lo", "host-veth"], "without the sandbox");
        return wasKilled;
      }),
  );
}
