/**
 * Repairs containers when another program has removed rules, routes or addresses.
 *
 * @module
 */

import { deadline, JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { haveSameContent } from "../../base/files/same_content.ts";
import { findFileId } from "../../base/files/same_file.ts";
import type { Log } from "../../base/log/log.ts";
import type { Environment } from "../../base/process/environment.ts";
import {
  createInvoker,
  type PluginLookup,
} from "../../cni/invoke/in_process.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { dispatch } from "../../cni/skel.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import type { Calls } from "../../daemon/server/calls.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import type { RepairsDocument } from "../../daemon/server/state_handler.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { NetNs } from "../../ffi/netns.ts";
import { type Removals, RemovalWatch } from "../../ffi/removals.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NetworkRuntime } from "../../libcni/mod.ts";
import { pluginNames } from "../../plugins/registry.ts";
import {
  listNodeAttachments,
  type NodeAttachment,
} from "../attachments/node_attachments.ts";
import type { Directories } from "../networks/network.ts";
import {
  type AttachmentRepair,
  repairAttachments,
} from "../repair/repair_node.ts";

/** A round begins when nothing was removed for so long, in ms. */
const QUIET_MS = 250;
/** It begins after this time although removals go on, in ms. */
const MOST_MS = 2000;
/** The least time between two rounds, in ms. */
const REST_MS = 5000;
/** How often all attachments are looked at although nothing was heard, in ms. */
const SWEEP_MS = 10 * 60_000;
/** How often the end of the daemon is looked for, in ms. */
const CHECK_MS = 1000;
/** A round that takes longer is ended, in ms. */
const ROUND_MS = 60_000;
/** How many deleted attachments are remembered. */
const MOST_DELETED = 10_000;

/** Options of a {@linkcode Repairer}. */
export interface RepairerOptions {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  readonly directories: Pick<Directories, "pluginDirs" | "cacheDir">;
  readonly env: Environment;
  /** Finds plugins that run in this process. */
  readonly lookup: PluginLookup;
  readonly log: Log;
  /** See {@linkcode REST_MS}. */
  readonly restMs?: number;
  /** See {@linkcode SWEEP_MS}. */
  readonly sweepMs?: number;
}

/**
 * Looks at all attachments at the start, every ten minutes, and after another
 * program has removed something that may be theirs; repairs those that lack something.
 */
export class Repairer {
  readonly #options: RepairerOptions;
  /** Attachments of which a DEL has succeeded, and no ADD has ended since. */
  readonly #deleted = new Set<string>();
  #removals: Removals | undefined;
  #lastRemovalMs = 0;
  #wake = Promise.withResolvers<true>();
  #rounds = 0;
  #repaired = 0;
  #remaining: RepairsDocument["remaining"] = [];
  #lastAt: string | undefined;
  #problem: string | undefined;

  /** Starts without removals. */
  constructor(options: RepairerOptions) {
    this.#options = options;
  }

  /** Notes a call that has ended. */
  note({ call: { env }, command, network, code }: EndedCall): void {
    const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifName = "" } = env;
    const attachment = keyOf({ network, containerId, ifName });
    if (command === "ADD") this.#deleted.delete(attachment);
    if (command !== "DEL" || code !== 0) return;
    this.#deleted.add(attachment);
    const [oldest = ""] = this.#deleted;
    if (this.#deleted.size > MOST_DELETED) this.#deleted.delete(oldest);
  }

  /**
   * Repairs until the signal.
   *
   * @param calls The daemon's: nothing is repaired while a call of its container runs
   */
  async run(
    calls: Pick<Calls, "whileIdle">,
    signal: AbortSignal,
  ): Promise<void> {
    const { hostNetns, log } = this.#options;
    try {
      using netns = NetNs.open(hostNetns);
      using watch = RemovalWatch.open(netns, isOwnProcess());
      await Promise.all([
        ...watch.descriptors.map((fd) => this.#listen(watch, fd, signal)),
        this.#repair(calls, signal),
      ]);
    } catch (error) {
      if (signal.aborted) return;
      this.#problem = describeError(error);
      log.error("Cannot repair containers", { error: this.#problem });
    }
  }

  async #listen(
    watch: RemovalWatch,
    fd: number,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      await waitReadable(fd, CHECK_MS);
      const removals = watch.take();
      if (removals !== undefined) this.#hear(removals);
    }
  }

  #hear(removals: Removals): void {
    const { areRules, isForwarding, ifindexes } = this.#removals ??
      { areRules: false, isForwarding: false, ifindexes: [] };
    this.#removals = {
      areRules: areRules || removals.areRules,
      isForwarding: isForwarding || removals.isForwarding,
      ifindexes: new Set([...ifindexes, ...removals.ifindexes]),
    };
    this.#lastRemovalMs = performance.now();
    this.#wake.resolve(true);
  }

  async #repair(
    calls: Pick<Calls, "whileIdle">,
    signal: AbortSignal,
  ): Promise<void> {
    const { restMs = REST_MS, sweepMs = SWEEP_MS } = this.#options;
    for (let sweepAt = performance.now(); !signal.aborted;) {
      const isSweep = performance.now() >= sweepAt;
      if (isSweep) sweepAt = performance.now() + sweepMs;
      else await this.#waitUntilQuiet(signal);
      const endsAt = performance.now() + restMs;
      if (await this.#tryRound(calls, isSweep, signal)) {
        await sleep(endsAt - performance.now(), signal);
      }
      // Checked before it waits: what was removed during a round must not be missed.
      if (this.#removals !== undefined) continue;
      this.#wake = Promise.withResolvers();
      await sleep(sweepAt - performance.now(), signal, this.#wake.promise);
    }
  }

  async #waitUntilQuiet(signal: AbortSignal): Promise<void> {
    const limit = performance.now() + MOST_MS;
    for (;;) {
      const now = performance.now();
      const end = Math.min(this.#lastRemovalMs + QUIET_MS, limit);
      if (signal.aborted || now >= end) return;
      await sleep(end - now, signal);
    }
  }

  /** Looks at all attachments if removals may concern them; returns whether it did. */
  async #tryRound(
    calls: Pick<Calls, "whileIdle">,
    isSweep: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    const removals = this.#removals;
    this.#removals = undefined;
    if (signal.aborted) return false;
    const { log, directories, hostNetns } = this.#options;
    try {
      const attachments = listNodeAttachments(directories)
        .filter(({ isLive }) => isLive);
      if (!isSweep && !concern(removals, attachments, hostNetns)) return false;
      const startMs = performance.now();
      const repairs = await this.#round(calls, attachments, signal);
      this.#report(repairs, performance.now() - startMs);
      this.#problem = undefined;
    } catch (error) {
      if (signal.aborted) return false;
      const problem = describeError(error);
      if (problem !== this.#problem) {
        log.warn("Cannot repair containers", { error: problem });
      }
      this.#problem = problem;
    }
    this.#rounds++;
    this.#lastAt = new Date().toISOString();
    return true;
  }

  async #round(
    calls: Pick<Calls, "whileIdle">,
    attachments: readonly NodeAttachment[],
    signal: AbortSignal,
  ): Promise<AttachmentRepair[]> {
    const { lookup, env, directories, hostNetns } = this.#options;
    const { pluginDirs } = directories;
    const callers = attachments.length === 0
      ? []
      : await listOwnFiles(pluginDirs);
    const invoker = createInvoker(dispatch, lookup, { callers });
    const runtimeOf = (cacheDir: string): NetworkRuntime =>
      new NetworkRuntime({ pluginDirs, env, cacheDir, hostNetns, invoker });
    using limit = new JoinedSignal(ROUND_MS, signal);
    return await repairAttachments(attachments, {
      runtimeOf,
      signal: limit.signal,
      around: async (attachment, repair) =>
        this.#deleted.has(keyOf(attachment))
          ? undefined
          : await calls.whileIdle(attachment.containerId, repair),
    });
  }

  #report(repairs: readonly AttachmentRepair[], ms: number): void {
    const { log } = this.#options;
    const repaired = repairs.filter(({ plugins }) =>
      plugins.some((one) => one.repaired.length > 0)
    );
    const remaining = repairs.flatMap(({ attachment, plugins, error }) => {
      const errors = [
        ...error === undefined ? [] : [error],
        ...plugins.flatMap(({ type, remaining }) =>
          remaining.map((text) => `${type}: ${text}`)
        ),
      ];
      const { network, containerId: container, ifName: ifname } = attachment;
      return errors.length === 0
        ? []
        : [{ network, container, ifname, error: errors.join("; ") }];
    });
    if (repaired.length > 0) {
      this.#repaired += repaired.length;
      const [first] = repaired.flatMap(({ plugins }) =>
        plugins.flatMap((one) => one.repaired)
      );
      log.info("Repaired containers that had lost something", {
        attachments: repaired.length,
        of: repairs.length,
        first,
        ms: ms.toFixed(),
      });
    }
    for (const one of remaining) {
      const isKnown = this.#remaining.some(({ container, error }) =>
        container === one.container && error === one.error
      );
      if (!isKnown) log.warn("Cannot repair a container", one);
    }
    this.#remaining = remaining;
  }

  /** Describes what it has done. */
  describe(): RepairsDocument {
    return {
      rounds: this.#rounds,
      repaired: this.#repaired,
      remaining: this.#remaining,
      ...this.#lastAt !== undefined && { lastAt: this.#lastAt },
      ...this.#problem !== undefined && { problem: this.#problem },
    };
  }

  /** Values for the daemon's metrics. */
  listGauges(): Gauge[] {
    return [
      {
        name: "cni_daemon_repairs_total",
        type: "counter",
        help: "Attachments that the daemon has repaired.",
        read: () => [[{}, this.#repaired]],
      },
      {
        name: "cni_daemon_repairs_failed",
        help:
          "Attachments that lacked something after the daemon's last round.",
        read: () => [[{}, this.#remaining.length]],
      },
    ];
  }
}

/** Returns a text that only this attachment has. */
function keyOf(
  { containerId, network, ifName }: Pick<
    NodeAttachment,
    "containerId" | "network" | "ifName"
  >,
): string {
  return JSON.stringify([containerId, network, ifName]);
}

/** Reports whether removals may concern attachments: deleted links do not. */
function concern(
  removals: Removals | undefined,
  attachments: readonly NodeAttachment[],
  hostNetns: string,
): boolean {
  if (removals === undefined || attachments.length === 0) return false;
  const { areRules, isForwarding, ifindexes } = removals;
  if (areRules || isForwarding) return true;
  const names = new Set(
    attachments.flatMap(({ result }) =>
      ifPossible(() => decodeResult(result ?? {}))?.interfaces
        .filter(({ sandbox }) => !sandbox).map(({ name }) => name) ?? []
    ),
  );
  using host = Rtnl.open(hostNetns);
  return [...ifindexes].some((index) =>
    names.has(host.link.find(index)?.name ?? "")
  );
}

/** Source: include/linux/sched.h `TASK_COMM_LEN`, less the NUL. */
const NAME_BYTES = 15;

/** Returns a test for names of this process and of plugins, which remove their own. */
function isOwnProcess(): (name: string) => boolean {
  const own = ifPossible(() => Deno.readTextFileSync("/proc/self/comm"));
  const names = new Set([
    own?.trim(),
    ...pluginNames.map((name) => name.slice(0, NAME_BYTES)),
  ]);
  return (name) => names.has(name);
}

/** Files of plugins that were compared with this executable. */
const COMPARED = new Map<string, boolean>();

/**
 * Lists the files of plugins that have this executable's content, as `findFileId`
 * identifies them. A daemon in a container runs from a file of its own.
 */
async function listOwnFiles(directories: readonly string[]): Promise<string[]> {
  const paths = new Map<string, string>();
  for (const directory of directories) {
    for (const name of pluginNames) {
      const path = `${directory}/${name}`, id = findFileId(path);
      if (id !== undefined) paths.set(id, path);
    }
  }
  for (const [id, path] of paths) {
    const isOwn = COMPARED.get(id) ??
      await haveSameContent("/proc/self/exe", path).catch(() => false);
    COMPARED.set(id, isOwn);
  }
  return [...paths.keys()].filter((id) => COMPARED.get(id));
}

/** Waits for a time in ms, or until something else comes. */
async function sleep(
  ms: number,
  signal: AbortSignal,
  other: Promise<true> = new Promise(() => {}),
): Promise<void> {
  if (ms > 0) await waitUntil(other, deadline(ms), signal);
}
