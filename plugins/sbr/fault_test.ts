/**
 * ADD that fails at any single step, and ADD and DEL that end there: whatever
 * the step, nothing may be left, or nothing that DEL does not find.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SyscallError } from "../../ffi/errno.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { requireRoot } from "../../tests/_harness/capabilities.ts";
import {
  FaultInjector,
  type Moment,
} from "../../tests/_harness/fault_injector.ts";
import {
  IP4,
  IP6,
  type Keys,
  SbrScene,
} from "../../tests/_harness/sbr_scene.ts";
import { ETH0, IPV6, NET1 } from "../../tests/_harness/two_networks.ts";

/** A scene with something of everything. */
function sceneWith(extras: Keys): SbrScene {
  return new SbrScene([
    ...ETH0,
    ...NET1,
    ...IPV6,
    "address add 192.168.101.209/24 dev net1",
    "route add 172.16.0.0/12 dev net1 metric 5",
    "route add default via 192.168.1.3 metric 7",
    // One route with eth0's, of which a part moves.
    "route append default via 2001:db8:1::3 dev net1",
  ], {
    ips: [
      IP4,
      { address: "192.168.101.209/24" },
      { address: IP6.address },
    ],
    routes: [
      { dst: "0.0.0.0/0", gw: "192.168.1.3", priority: 7 },
      { dst: "::/0", gw: "2001:db8:1::3" },
    ],
    ...extras,
  });
}

const VARIANTS: Readonly<Record<string, Keys>> = {
  "tables of its own": {},
  "gateways": { gateways: ["192.168.1.254", "2001:db8:1::254"] },
  "source hints": { addSourceHints: true },
  "a given table": { table: 5000 },
};

/** What an ADD that nothing disturbs leaves. */
async function stateAfterAdd(extras: Keys): Promise<string[]> {
  using scene = sceneWith(extras);
  await scene.succeed("ADD");
  return scene.state;
}

/**
 * Does something for every step, until there is none of that number.
 *
 * @param work Says whether there was one
 */
async function eachStep(
  t: Deno.TestContext,
  atLeast: number,
  work: (step: number) => Promise<boolean>,
): Promise<void> {
  for (let step = 1, isThere = true; isThere; step++) {
    isThere = false;
    await t.step(`step ${step}`, async () => {
      isThere = await work(step);
      assert(isThere || step > atLeast, `only ${step} steps`);
      assert(step < 100, "it does not end");
    });
  }
}

for (const moment of ["instead", "afterwards"] as const) {
  for (const [variant, extras] of Object.entries(VARIANTS)) {
    Deno.test(
      requireRoot(
        `sbr.add() leaves nothing when a step fails, ${moment}: ${variant}`,
      ),
      async (t) => {
        const expected = await stateAfterAdd(extras);
        await eachStep(
          t,
          "table" in extras ? 2 : 12,
          (step) => addWithFault(step, moment, { extras, expected }),
        );
      },
    );
  }
}

async function addWithFault(
  failing: number,
  moment: Moment,
  { extras, expected }: { extras: Keys; expected: string[] },
): Promise<boolean> {
  using scene = sceneWith(extras);
  const before = scene.state;
  using fault = new FaultInjector(failing, moment);
  const added = await scene.run("ADD");
  fault[Symbol.dispose]();
  if (fault.steps.length < failing) return false;
  assertEquals(added.exitCode, 1);
  assertStringIncludes(added.stdout, "injected into");
  assertEquals(added.stderr, "", "an undo step failed");
  assertEquals(scene.state, before);
  // And what failed once works the next time.
  await scene.succeed("ADD");
  assertEquals(scene.state, expected);
  return true;
}

/** Ends an operation at a step, as a crash would: nothing is done from then on. */
class Crash implements Disposable {
  readonly #request = NetlinkSocket.prototype.request;
  #left: number;
  /** Whether there was such a step. */
  hasCome = false;

  /** @param step The last one that is done */
  constructor(step: number) {
    this.#left = step;
    const crash = (): boolean => {
      if (this.#left-- > 0) return false;
      return this.hasCome = true;
    };
    const request = this.#request;
    NetlinkSocket.prototype.request = function (
      this: NetlinkSocket,
      ...args: Parameters<typeof request>
    ): ReturnType<typeof request> {
      if (crash()) throw new SyscallError("the process is dead", 5);
      return request.apply(this, args);
    } as typeof request;
  }

  [Symbol.dispose](): void {
    NetlinkSocket.prototype.request = this.#request;
  }
}

/** Begins an operation, and ends it after a step. */
async function crashAfter(
  scene: SbrScene,
  command: string,
  step: number,
): Promise<boolean> {
  using crash = new Crash(step);
  await scene.run(command);
  return crash.hasCome;
}

for (const [variant, extras] of Object.entries(VARIANTS)) {
  Deno.test(
    requireRoot(
      `sbr.del() and sbr.add() get over an ADD that ended: ${variant}`,
    ),
    async (t) => {
      const expected = await stateAfterAdd(extras);
      await eachStep(t, "table" in extras ? 2 : 12, async (step) => {
        using scene = sceneWith(extras);
        const before = scene.state;
        const hasEnded = await crashAfter(scene, "ADD", step);
        await scene.succeed("DEL");
        assertEquals(scene.state, before, "DEL");
        await crashAfter(scene, "ADD", step);
        await scene.succeed("ADD");
        assertEquals(scene.state, expected, "ADD");
        await scene.succeed("CHECK");
        await scene.succeed("DEL");
        assertEquals(scene.state, before, "DEL after ADD");
        return hasEnded;
      });
    },
  );

  Deno.test(
    requireRoot(
      `sbr.del() and sbr.add() get over a DEL that ended: ${variant}`,
    ),
    async (t) => {
      const expected = await stateAfterAdd(extras);
      await eachStep(t, "table" in extras ? 2 : 12, async (step) => {
        using scene = sceneWith(extras);
        const before = scene.state;
        await scene.succeed("ADD");
        const hasEnded = await crashAfter(scene, "DEL", step);
        await scene.succeed("ADD");
        assertEquals(scene.state, expected, "ADD");
        await crashAfter(scene, "DEL", step);
        await scene.succeed("DEL");
        assertEquals(scene.state, before, "DEL");
        return hasEnded;
      });
    },
  );
}
