/**
 * Repairs containers when another program has removed rules, routes or addresses.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { Environment } from "../../base/process/environment.ts";
import { throwAll } from "../../base/rollback.ts";
import {
  createInvoker,
  type PluginLookup,
} from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import type { RepairsDocument } from "../../daemon/server/state_handler.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { NetNs } from "../../ffi/netns.ts";
import {
  type Removals,
  RemovalWatch,
  type RulesOfInterest,
} from "../../ffi/removals.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NetworkRuntime } from "../../libcni/mod.ts";
import { isOwnProgram } from "../../plugins/parts/firewall/iptables/program.ts";
import { pluginNames } from "../../plugins/registry.ts";
import {
  listNodeAttachments,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import type { Directories } from "../node/network.ts";
import {
  type AttachmentRepair,
  type NodeRepairs,
  repairAttachments,
} from "../repair/repair_node.ts";
import { OwnFiles } from "./own_files.ts";
import { mayHaveOwnRules } from "./own_rules.ts";
import {
  Reconciler,
  type ReconcilerOptions,
  type Round,
} from "./reconciler.ts";

/** Time without further removals until a round begins, in ms. */
const QUIET_MS = 250;
/** Longest time from the first removal to the round, even if removals continue, in ms. */
const MOST_MS = 2000;
/** How often to check whether the daemon stops, in ms. */
const CHECK_MS = 1000;
/** Time limit of a round, in ms; the next round continues where this round stopped. */
const ROUND_MS = 60_000;
/** Time until a failed watch is opened again, in ms. */
const REOPEN_MS = 60_000;
/** The removals to assume after a time without events. */
const ANYTHING: Removals = {
  areRules: true,
  isForwarding: true,
  ifindexes: new Set(),
  deleted: new Set(),
};
/** How many deleted attachments are kept in memory. */
const MOST_DELETED = 10_000;

/** Options of a {@linkcode Repairer}. */
export interface RepairerOptions extends ReconcilerOptions {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  readonly directories: Pick<Directories, "pluginDirs" | "cacheDir">;
  readonly env: Environment;
  /** Finds plugins that run in this process. */
  readonly lookup: PluginLookup;
  /** See {@linkcode REOPEN_MS}. */
  readonly reopenMs?: number;
  /** See {@linkcode ROUND_MS}. */
  readonly roundMs?: number;
}

/**
 * Checks all attachments at the start, every ten minutes, and after a different program
 * removed an object that may belong to a container; repairs what is missing.
 */
export class Repairer extends Reconciler<"repairs", RepairerOptions> {
  readonly name = "repairs";
  protected readonly failure = "Cannot repair containers";
  protected readonly restMs = 5000;
  /** Attachments whose last ADD or DEL was a successful DEL. */
  readonly #deleted = new Set<string>();
  readonly #ownFiles = new OwnFiles(pluginNames);
  /** Containers that rounds have begun to repair since the last complete round. */
  readonly #begun = new Set<string>();
  /** Why it receives no events; only sweeps then find what is missing. */
  #watchProblem: string | undefined;
  #removals: Removals | undefined;
  #firstRemovalMs = 0;
  #lastRemovalMs = 0;
  #repaired = 0;
  #remaining: RepairsDocument["remaining"] = [];
  /** The last repairs, by the key of the attachment. */
  #done: ReadonlyMap<string, RepairsDocument["done"][number]> = new Map();

  note({ call: { env }, command, network, code }: EndedCall): void {
    const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifName = "" } = env;
    const attachment = keyOf({ network, containerId, ifName });
    if (command === "ADD") this.#deleted.delete(attachment);
    if (command !== "DEL" || code !== 0) return;
    this.#deleted.add(attachment);
    const [oldest = ""] = this.#deleted;
    if (this.#deleted.size > MOST_DELETED) this.#deleted.delete(oldest);
  }

  override async run(
    calls: Round["calls"],
    signal: AbortSignal,
  ): Promise<void> {
    await Promise.all([this.#keepListening(signal), super.run(calls, signal)]);
  }

  /** Listens until the signal; after a failure, it listens again some time later. */
  async #keepListening(signal: AbortSignal): Promise<void> {
    const { log, reopenMs = REOPEN_MS } = this.options;
    while (!signal.aborted) {
      try {
        await this.#listenToAll(signal);
      } catch (error) {
        const problem = describeError(error);
        if (problem !== this.#watchProblem) {
          log.error("Cannot listen for removals", { error: problem });
        }
        this.#watchProblem = problem;
        await pause(reopenMs, signal);
      }
    }
  }

  async #listenToAll(signal: AbortSignal): Promise<void> {
    using netns = NetNs.open(this.options.hostNetns);
    using watch = RemovalWatch.open(netns, {
      isIgnored: isOwnProcess(),
      isTheirs: mayHaveOwnRules,
    });
    if (this.#watchProblem !== undefined) this.#record(ANYTHING);
    this.#watchProblem = undefined;
    const failure = new AbortController();
    using over = new JoinedSignal(signal, failure.signal);
    // The watch must remain open until both listeners have stopped.
    const ended = await Promise.allSettled(
      watch.descriptors.map(async (fd) => {
        try {
          await this.#listen(watch, fd, over.signal);
        } finally {
          failure.abort();
        }
      }),
    );
    const failures = ended.flatMap((listener) =>
      listener.status === "rejected" ? [listener.reason] : []
    );
    throwAll(failures, "both sockets failed");
  }

  async #listen(
    watch: RemovalWatch,
    fd: number,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      await waitReadable(fd, CHECK_MS);
      const removals = watch.take();
      if (removals !== undefined) this.#record(removals);
    }
  }

  #record(removals: Removals): void {
    this.#lastRemovalMs = performance.now();
    if (this.#removals === undefined) {
      this.#firstRemovalMs = this.#lastRemovalMs;
    }
    const before = this.#removals ?? removals;
    this.#removals = {
      areRules: before.areRules || removals.areRules,
      isForwarding: before.isForwarding || removals.isForwarding,
      ifindexes: before.ifindexes.union(removals.ifindexes),
      deleted: before.deleted.union(removals.deleted),
    };
    this.wake();
  }

  protected dueAt(): number {
    return this.#removals === undefined ? Infinity : Math.min(
      this.#lastRemovalMs + QUIET_MS,
      this.#firstRemovalMs + MOST_MS,
    );
  }

  protected async work(round: Round): Promise<boolean> {
    const { directories, hostNetns } = this.options;
    const removals = this.#removals;
    this.#removals = undefined;
    const attachments = listNodeAttachments(directories)
      .filter(({ isLive }) => isLive);
    if (!round.isSweep && !concern(removals, attachments, hostNetns)) {
      return false;
    }
    const startMs = performance.now();
    const { repairs, failure } = await this.#repair(attachments, round);
    // An error because the daemon stops is not a failure of the container.
    const isEnding = round.signal.aborted;
    const known = isEnding
      ? repairs.map(({ error: _, ...others }) => others)
      : repairs;
    this.#report(known, attachments, performance.now() - startMs);
    if (failure !== undefined) throw failure;
    return true;
  }

  async #repair(
    attachments: readonly NodeAttachment[],
    { calls, signal, mayBeginAnother, beginAnother }: Round,
  ): Promise<NodeRepairs> {
    const { lookup, env, directories, hostNetns, roundMs = ROUND_MS } =
      this.options;
    const { pluginDirs } = directories;
    const callers = attachments.length === 0
      ? []
      : await this.#ownFiles.list(pluginDirs);
    const invoker = createInvoker(dispatch, lookup, { callers });
    using limit = new JoinedSignal(roundMs, signal);
    let takenMs = -Infinity;
    const taken: Removals[] = [];
    const takeLoss = (): number => {
      if (performance.now() < this.dueAt() || !mayBeginAnother()) {
        return takenMs;
      }
      // If this cannot be determined, the next round fails.
      const isTheirs = ifPossible(() =>
        concern(this.#removals, attachments, hostNetns)
      );
      if (isTheirs === undefined) return takenMs;
      if (isTheirs) {
        beginAnother();
        takenMs = this.#lastRemovalMs;
      }
      if (this.#removals !== undefined) taken.push(this.#removals);
      this.#removals = undefined;
      return takenMs;
    };
    const ended = await repairAttachments(this.#order(attachments), {
      createRuntime: (cacheDir) =>
        new NetworkRuntime({ pluginDirs, env, cacheDir, hostNetns, invoker }),
      hostNetns,
      signal: limit.signal,
      takeLoss,
      isDeleted: (attachment) => {
        // Called before anything else for each attachment.
        this.#begun.add(attachment.containerId);
        return this.#deleted.has(keyOf(attachment));
      },
      // After the daemon's last call, repairs of deleted attachments must still be undone.
      around: async ({ containerId }, work) =>
        await calls.whileIdle(containerId, work) ??
          (signal.aborted ? await work() : undefined),
    });
    if (ended.failure === undefined) this.#begun.clear();
    if (taken.length > 0) this.#leaveToNextRound(taken, attachments);
    return ended;
  }

  /** Leaves removals to the next round that concern attachments added during this round. */
  #leaveToNextRound(
    taken: readonly Removals[],
    attachments: readonly NodeAttachment[],
  ): void {
    const { directories, hostNetns } = this.options;
    const known = new Set(attachments.map(keyOf));
    const others = listNodeAttachments(directories)
      .filter((attachment) =>
        attachment.isLive && !known.has(keyOf(attachment))
      );
    for (const removals of taken) {
      if (concern(removals, others, hostNetns)) this.#record(removals);
    }
  }

  /**
   * Puts containers first that the last rounds did not reach: otherwise slow containers
   * could use up the time of every round.
   */
  #order(attachments: readonly NodeAttachment[]): NodeAttachment[] {
    const { rest = [], begun = [] } = Object.groupBy(
      attachments,
      ({ containerId }) => this.#begun.has(containerId) ? "begun" : "rest",
    );
    if (rest.length === 0) this.#begun.clear();
    return [...rest, ...begun];
  }

  #report(
    repairs: readonly AttachmentRepair[],
    attachments: readonly NodeAttachment[],
    ms: number,
  ): void {
    const { log } = this.options;
    this.#noteDone(repairs, attachments);
    const repaired = repairs.filter(({ plugins }) =>
      plugins.some((plugin) => plugin.repaired.length > 0)
    );
    const failed = repairs.flatMap(({ attachment, plugins, error }) => {
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
        plugins.flatMap((plugin) => plugin.repaired)
      );
      log.info("Repaired containers that had lost something", {
        attachments: repaired.length,
        of: repairs.length,
        first,
        ms: ms.toFixed(),
      });
    }
    for (const failure of failed) {
      const isKnown = this.#remaining.some(({ container, error }) =>
        container === failure.container && error === failure.error
      );
      if (!isKnown) log.warn("Cannot repair a container", failure);
    }
    this.#remaining = [...failed, ...this.#listUnseen(repairs, attachments)];
  }

  /** Lists the earlier failures of attachments that a round did not reach. */
  #listUnseen(
    repairs: readonly AttachmentRepair[],
    attachments: readonly NodeAttachment[],
  ): RepairsDocument["remaining"] {
    const seen = new Set(repairs.map(({ attachment }) => keyOf(attachment)));
    const unseen = new Set(attachments.map(keyOf)).difference(seen)
      .difference(this.#deleted);
    return this.#remaining.filter(({ network, container, ifname }) =>
      unseen.has(keyOf({ network, containerId: container, ifName: ifname }))
    );
  }

  /** Records the repairs, and forgets the repairs of deleted attachments. */
  #noteDone(
    repairs: readonly AttachmentRepair[],
    attachments: readonly NodeAttachment[],
  ): void {
    const at = new Date().toISOString();
    const done = new Map(this.#done);
    for (const { attachment, plugins } of repairs) {
      const repaired = plugins.flatMap(({ type, repaired }) =>
        repaired.map((text) => `${type}: ${text}`)
      );
      if (repaired.length === 0) continue;
      const { network, containerId: container, ifName: ifname } = attachment;
      const key = keyOf(attachment);
      done.set(key, { network, container, ifname, at, repaired });
    }
    const known = new Set(attachments.map(keyOf));
    this.#done = new Map([...done].filter(([key]) => known.has(key)));
  }

  describe(): RepairsDocument {
    return {
      rounds: this.rounds,
      repaired: this.#repaired,
      remaining: this.#remaining,
      done: [...this.#done.values()],
      ...this.#watchProblem === undefined
        ? {}
        : { problem: this.#watchProblem },
      ...this.last,
    };
  }

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
          "Attachments that the daemon could not fully repair in its last round.",
        read: () => [[{}, this.#remaining.length]],
      },
    ];
  }
}

/** Returns a text that identifies an attachment. */
function keyOf(
  { containerId, network, ifName }: Pick<
    NodeAttachment,
    "containerId" | "network" | "ifName"
  >,
): string {
  return JSON.stringify([containerId, network, ifName]);
}

/** Reports whether removals might concern attachments. */
function concern(
  removals: Removals | undefined,
  attachments: readonly NodeAttachment[],
  hostNetns: string,
): boolean {
  if (removals === undefined || attachments.length === 0) return false;
  const { areRules, isForwarding, ifindexes, deleted } = removals;
  if (areRules || isForwarding) return true;
  const names = new Set(
    attachments.flatMap((attachment) =>
      resultOf(attachment)?.interfaces
        .filter(({ sandbox }) => !sandbox).map(({ name }) => name) ?? []
    ),
  );
  if (!names.isDisjointFrom(deleted)) return true;
  using host = Rtnl.open(hostNetns);
  return [...ifindexes].some((index) =>
    names.has(host.link.find(index)?.name ?? "")
  );
}

/** Source: include/linux/sched.h `TASK_COMM_LEN`, less the NUL. */
const NAME_BYTES = 15;

/** Returns a test for this process, its iptables and plugins, which remove their own rules. */
function isOwnProcess(): RulesOfInterest["isIgnored"] {
  const own = ifPossible(() => Deno.readTextFileSync("/proc/self/comm"));
  const names = new Set([
    own?.trim(),
    ...pluginNames.map((name) => name.slice(0, NAME_BYTES)),
  ]);
  return (name, processId) => names.has(name) || isOwnProgram(processId);
}
