/**
 * ADD that fails, or is cut off, at any single step, as a test of it for every
 * plugin.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SyscallError } from "../../ffi/errno.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { rootTest } from "../../testing/capabilities.ts";
import {
  Collecting,
  FaultInjector,
  intercept,
  type Moment,
} from "../../testing/fault_injector.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import type { Keys } from "./plugin_scene.ts";

/** A host on which ADD fails. */
export interface FaultScene extends Disposable {
  /** The state that a failed ADD must leave unchanged. */
  readonly state: unknown;
  /** Runs a command, with more keys or other ones. */
  run(command: string, extras?: Keys): Promise<CallOutput>;
}

/** The operation under test. */
export interface FaultTest {
  /** Creates a host where the next ADD succeeds. */
  readonly make: () => FaultScene | Promise<FaultScene>;
  /** How many steps ADD undoes, at the least: fewer are not all. */
  readonly atLeast: number;
  /** Steps that may fail without failing ADD; none by default. */
  readonly optional?: RegExp;
  /** The state after an undisturbed ADD; not checked if undefined. */
  readonly added?: () => Promise<unknown>;
}

/**
 * Does something for step 1, 2, ... until there is no such step, each as a step
 * of the test.
 *
 * @param work Returns the outcome; undefined after the last step
 * @param most A number above the last step
 * @returns What it returned
 */
export async function eachStep<T>(
  t: Deno.TestContext,
  work: (step: number) => T | undefined | Promise<T | undefined>,
  most = 100,
): Promise<T[]> {
  const outcomes: T[] = [];
  for (let step = 1; outcomes.length === step - 1; step++) {
    assert(step < most, "it does not end");
    await t.step(`step ${step}`, async () => {
      const outcome = await work(step);
      if (outcome !== undefined) outcomes.push(outcome);
    });
  }
  return outcomes;
}

/**
 * Registers a test for each moment that a step may fail at: whatever the step,
 * nothing may be left of ADD, and the next one must succeed.
 *
 * @param suffix The end of the tests' names
 */
export function testFaultsOfAdd(
  type: string,
  suffix: string,
  test: FaultTest,
): void {
  for (const moment of ["instead", "afterwards"] as const) {
    const name = `${type}.add() leaves nothing when a step fails, ${moment}`;
    rootTest(name + suffix, async (t) => {
      const added = await test.added?.();
      const outcomes = await eachStep(
        t,
        (step) => addWithFault(test, { step, moment, added }),
      );
      const { length } = outcomes.filter((outcome) => outcome === "undone");
      assert(length >= test.atLeast, `only ${length} steps were undone`);
    });
  }
}

/** Which step fails, and what ADD leaves if none does. */
interface Fault {
  readonly step: number;
  readonly moment: Moment;
  readonly added: unknown;
}

/** Runs ADD with one failing step, and checks what it leaves. */
async function addWithFault(
  { make, optional }: FaultTest,
  { step, moment, added }: Fault,
): Promise<"done without" | "undone" | undefined> {
  using scene = await make();
  const before = scene.state;
  using fault = new FaultInjector(step, moment);
  const { exitCode, stdout, stderr, json } = await scene.run("ADD");
  fault[Symbol.dispose]();
  const failed = fault.steps[step - 1];
  if (failed === undefined || optional?.test(failed) && exitCode === 0) {
    assertEquals(exitCode, 0, stdout);
    if (failed === undefined) return undefined;
    const checked = await scene.run("CHECK", { prevResult: json });
    assertEquals(checked.stdout, "");
    return "done without";
  }
  assertEquals(exitCode, 1, `ADD does without "${failed}"`);
  assertStringIncludes(stdout, "injected into");
  assertEquals(stderr, "", "an undo step failed");
  assertEquals(scene.state, before);
  // And what failed once works the next time.
  const again = await scene.run("ADD");
  assertEquals(again.exitCode, 0, again.stdout);
  if (added !== undefined) assertEquals(scene.state, added);
  return "undone";
}

/** Methods by which an operation talks to the kernel. */
export type NetlinkMethod = "request" | "get" | "dump" | "requestEach";

/**
 * Ends all that goes through netlink after some calls, as kill -9 does: nothing
 * is done from then on.
 */
export class Crash implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #collecting = this.#stack.use(new Collecting());
  #left: number;
  /** Whether the crash happened. */
  hasHappened = false;

  /**
   * Starts to count.
   *
   * @param calls How many of them are done
   * @param methods What counts as one, and fails from then on
   */
  constructor(
    calls: number,
    methods: readonly NetlinkMethod[] = [
      "request",
      "get",
      "dump",
      "requestEach",
    ],
  ) {
    this.#left = calls;
    for (const method of methods) {
      this.#stack.defer(
        intercept(NetlinkSocket.prototype, method, (args, work) => {
          if (method === "requestEach") return this.#cutShort(args, work);
          if (this.#collecting.isOn) return work();
          this.#count();
          return work();
        }),
      );
    }
  }

  /** The kernel gets as many of the requests as are left. */
  #cutShort(args: unknown[], work: () => unknown): unknown {
    const [requests] = args as [unknown[]];
    const sent = Math.min(this.#left, requests.length);
    this.#left -= sent;
    args[0] = requests.slice(0, sent);
    const refusals = sent > 0 ? work() : [];
    if (sent < requests.length) this.#count();
    return refusals;
  }

  #count(): void {
    if (this.#left-- > 0) return;
    this.hasHappened = true;
    throw new SyscallError("the process is dead", 5);
  }

  /** Puts everything back. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
