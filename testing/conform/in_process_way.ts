/**
 * Calls of a plugin in this process, for tests.
 *
 * @module
 */

import type { Plugin } from "../../cni/plugin.ts";
import type { NetConf } from "../../cni/config/types.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { FaultInjector } from "../fault_injector.ts";
import { TestHosts } from "../test_hosts.ts";
import { Broken, expect } from "./verdict.ts";
import type { Place } from "./place.ts";
import { describeReply, type Scene } from "./scene.ts";
import { readDocument, type Reply, type Request } from "./call.ts";
import type { Way } from "./scene.ts";

/** A number above the last step of any ADD. */
const MOST_STEPS = 500;

/** Calls a plugin in this process, or by what replaces that in tests. */
export class InProcessWay<Config extends NetConf> implements Way {
  readonly #plugin: Plugin<Config>;
  readonly #hosts: TestHosts;
  readonly #optional: RegExp | undefined;

  /** @param optional Steps that may fail without failing ADD */
  constructor(
    plugin: Plugin<Config>,
    hosts: TestHosts,
    optional: RegExp | undefined,
  ) {
    this.#plugin = plugin;
    this.#hosts = hosts;
    this.#optional = optional;
  }

  async call(place: Place, { env, stdin }: Request): Promise<Reply> {
    const all = Object.entries(this.#hosts.environment(""));
    const ofNode = all.filter(([name]) =>
      !/^CNI_(COMMAND|CONTAINERID|NETNS|IFNAME|PATH)$/.test(name)
    );
    const { exitCode, stdout, stderr } = await TestHosts.dispatch(
      this.#plugin,
      {
        env: { ...Object.fromEntries(ofNode), ...env },
        stdin: () => new TextEncoder().encode(stdin),
        invoker: createInvoker(dispatch, findPlugin),
        hostNetns: place.host.path,
        // As a process of its own. A daemon knows when a call begins.
        ...TestHosts.dispatch === dispatch ? { startedAt: new Date() } : {},
      },
    );
    return {
      exit: String(exitCode),
      stdout,
      stderr,
      json: readDocument(stdout),
    };
  }

  /** Fails each step of ADD in turn: it must fail, and leave nothing by itself. */
  async cutShort(scene: Scene): Promise<void> {
    await scene.warmUp();
    const one = await scene.container();
    const { prevResult } = one;
    const before = scene.state(), inside = scene.stateOf(one);
    const unchanged = async (what: string): Promise<void> => {
      await scene.same(before, () => scene.state(), what);
      await scene.same(inside, () => scene.stateOf(one), what);
    };
    for (let step = 1; step < MOST_STEPS; step++) {
      one.prevResult = prevResult;
      using fault = new FaultInjector(step, "instead");
      const reply = await scene.call("ADD", one);
      fault[Symbol.dispose]();
      const failed = fault.steps[step - 1];
      if (failed !== undefined && reply.exit !== "0") {
        expect(
          reply.stdout.includes("injected into"),
          `the error does not name its cause, "${failed}": ${
            describeReply(reply)
          }`,
        );
        expect(
          !reply.stderr.includes("level=error"),
          `undoing fails after "${failed}": ${reply.stderr}`,
        );
        await unchanged(`ADD that fails at "${failed}"`);
        continue;
      }
      expect(
        failed === undefined || this.#optional?.test(failed),
        `ADD does without "${failed}"`,
      );
      expect(reply.exit === "0", describeReply(reply));
      one.prevResult = reply.json;
      await scene.succeed("DEL", one);
      await unchanged("after DEL");
      if (failed === undefined) return;
    }
    throw new Broken("ADD does not end");
  }
}
