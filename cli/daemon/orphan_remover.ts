/**
 * Removes orphans in the background. If a plugin of a network list is missing, the
 * runtime does not run DEL of the plugins before it, and forgets the container.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { leadsToSandbox } from "../../cni/call/netns_existence.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import type { OrphansDocument } from "../../daemon/server/state_handler.ts";
import { ORPHAN_KINDS } from "../../metadata/orphans.ts";
import { listContainerIds } from "../../plugins/parts/evidence/containers.ts";
import type { Directories } from "../node/network.ts";
import type { Orphan, OrphanSearchOptions, Removal } from "../orphans/mod.ts";
import {
  Reconciler,
  type ReconcilerOptions,
  type Round,
} from "./reconciler.ts";

/** Minimum age of an orphan, in ms: a pod might be attached at the moment. */
const GRACE_MS = 60_000;
/** Time after the grace period until every orphan of an event is older than it, in ms. */
const MARGIN_MS = 1000;
/** How many configurations are kept: those of the last calls. */
const MOST_CONFS = 100;
/** How many containers are followed; sweeps find the orphans of all others. */
const MOST_CONTAINERS = 10_000;

/** Options of a {@linkcode OrphanRemover}. */
export interface OrphanRemoverOptions extends ReconcilerOptions {
  /** Where plugins, configurations and attachments are; read again for each search. */
  readonly directories: Directories;
  /** How to search for orphans, and how to run the plugins that remove them. */
  readonly search: Omit<
    OrphanSearchOptions,
    "graceMs" | "isAutomatic" | "signal" | "confs" | keyof Directories
  >;
  /** Removes orphans; the engine of `cni gc --orphans` by default. */
  readonly remove?: (
    search: OrphanSearchOptions,
  ) => Promise<readonly Removal[]>;
  /** Lists the containers of the node's runtimes. */
  readonly containers?: () => ReadonlySet<string>;
  /** See {@linkcode GRACE_MS}. */
  readonly graceMs?: number;
}

/**
 * An orphan that could not be removed. It does not keep the results of its search in
 * memory, as the `remove()` of an {@linkcode Orphan} does.
 */
interface FailedRemoval extends Pick<Orphan, "kind" | "where" | "container"> {
  readonly error: string;
}

/** A container that this daemon has attached. */
interface Followed {
  readonly netns: string;
  /** The ADDs without a successful DEL. */
  readonly open: Set<string>;
}

/**
 * Removes orphans. After a container's namespace was deleted or a call of the container
 * failed, it searches when the grace period has expired and the runtime has removed the
 * container, unless DEL succeeds first. It searches the whole node at the start, one
 * grace period later, and every ten minutes.
 */
export class OrphanRemover
  extends Reconciler<"leftovers", OrphanRemoverOptions> {
  readonly name = "leftovers";
  protected readonly failure = "Cannot search for orphans";
  protected readonly restMs = 10_000;
  readonly #containers = new Map<string, Followed>();
  /** When to check each container again, in ms of the process's clock. */
  readonly #due = new Map<string, number>();
  /** Configurations by plugin and network: they name the directories of plugins' state. */
  readonly #confs = new Map<string, Uint8Array>();
  readonly #watched = new Set<string>();
  readonly #removed = new Map<string, number>();
  #failed: readonly FailedRemoval[] = [];

  note({ call, plugin, command, network, code }: EndedCall): void {
    const { env, stdin } = call;
    const { CNI_CONTAINERID: container = "", CNI_NETNS: netns = "" } = env;
    if (code < 0 || container === "") return;
    const step = JSON.stringify([plugin, network, env["CNI_IFNAME"]]);
    const conf = JSON.stringify([plugin, network]);
    this.#confs.delete(conf);
    this.#confs.set(conf, stdin);
    if (this.#confs.size > MOST_CONFS) {
      const [oldest = ""] = this.#confs.keys();
      this.#confs.delete(oldest);
    }
    if (command === "ADD") this.#follow(container, netns, step);
    else if (command !== "DEL") return;
    if (code > 0) return this.#suspect(container);
    if (command === "ADD") return;
    const { open } = this.#containers.get(container) ?? {};
    open?.delete(step);
    if (open?.size === 0) this.#forget(container);
  }

  #follow(container: string, netns: string, step: string): void {
    const followed = this.#containers.get(container) ??
      { netns, open: new Set() };
    followed.open.add(step);
    if (this.#containers.size < MOST_CONTAINERS) {
      this.#containers.set(container, followed);
    }
    this.#watch(dirname(netns));
  }

  #forget(container: string): void {
    this.#containers.delete(container);
    this.#due.delete(container);
  }

  /** Checks a container when the grace period has expired. */
  #suspect(container: string): void {
    const { graceMs = GRACE_MS } = this.options;
    this.#due.set(container, performance.now() + graceMs + MARGIN_MS);
    this.wake();
  }

  /** Watches a directory for removed namespace files. */
  #watch(directory: string): void {
    // The kernel reports no events of /proc.
    if (this.#watched.has(directory) || !/^(\/var)?\/run\//.test(directory)) {
      return;
    }
    const watcher = ifPossible(() =>
      Deno.watchFs(directory, { recursive: false })
    );
    if (watcher === undefined) return;
    this.#watched.add(directory);
    this.stack.defer(() => watcher.close());
    this.#followRemovals(watcher).catch((error) =>
      this.options.log.warn("Cannot watch network namespaces", {
        directory,
        error: describeError(error),
      })
    );
  }

  async #followRemovals(watcher: Deno.FsWatcher): Promise<void> {
    for await (const { kind, paths } of watcher) {
      if (kind !== "remove") continue;
      for (const [container, { netns }] of this.#containers) {
        if (paths.includes(netns)) this.#suspect(container);
      }
    }
  }

  protected dueAt(): number {
    return Math.min(...this.#due.values());
  }

  /** Forgets containers whose namespace was deleted without an event; the sweep finds their orphans. */
  #forgetDead(): void {
    for (const [container, { netns }] of this.#containers) {
      const isAwaited = this.#due.has(container);
      if (!isAwaited && !this.#isLive(netns)) {
        this.#forget(container);
      }
    }
  }

  #isLive(netns: string): boolean {
    return leadsToSandbox(netns, this.options.search.hostNetns) === true;
  }

  /**
   * Takes the containers that are due; returns whether any of them is deleted. A kubelet
   * removes a stopped sandbox up to a minute later, and no event reports that.
   */
  #takeDead(): boolean {
    const { containers = listContainerIds } = this.options;
    const now = performance.now();
    let known: ReadonlySet<string> | undefined;
    let isDead = false;
    for (const [container, at] of this.#due) {
      if (at > now) continue;
      const { netns = "" } = this.#containers.get(container) ?? {};
      const isLive = this.#isLive(netns);
      if (!isLive && (known ??= containers()).has(container)) {
        this.#suspect(container);
        continue;
      }
      this.#due.delete(container);
      if (isLive) continue;
      this.#containers.delete(container);
      isDead = true;
    }
    return isDead;
  }

  protected async work({ isSweep, signal }: Round): Promise<boolean> {
    const { search, directories, graceMs = GRACE_MS } = this.options;
    // The orphans of an earlier daemon may be too young for the first search.
    if (this.rounds === 0) this.#suspect("");
    if (isSweep) this.#forgetDead();
    if (!this.#takeDead() && !isSweep) return false;
    const { removeOrphans } = await import("./remove_orphans.ts");
    const { remove = removeOrphans } = this.options;
    const confs = [...this.#confs.values()];
    const { pluginDirs, confDir, cacheDir } = directories;
    const places = { pluginDirs, confDir, cacheDir, confs };
    const limits = { graceMs, isAutomatic: true, signal };
    this.#report(await remove({ ...search, ...places, ...limits }));
    return true;
  }

  #report(removals: readonly Removal[]): void {
    const { log } = this.options;
    for (const { orphan, error } of removals) {
      const { kind, container, network, why } = orphan;
      const about = { kind, where: orphan.where, container, network, why };
      if (error === undefined) {
        this.#removed.set(kind, (this.#removed.get(kind) ?? 0) + 1);
        log.info("Removed a resource of a deleted container", about);
      } else if (!this.#failed.some((known) => isSame(known, orphan))) {
        log.warn("Cannot remove a resource of a deleted container", {
          ...about,
          error: describeError(error),
        });
      }
    }
    this.#failed = removals.flatMap(({ orphan, error }) => {
      const { kind, where, container } = orphan;
      return error === undefined
        ? []
        : [{ kind, where, container, error: describeError(error) }];
    });
  }

  describe(): OrphansDocument {
    return {
      removed: Object.fromEntries(this.#removed),
      failed: this.#failed.map(({ kind, where, error }) => ({
        kind,
        where,
        error,
      })),
      searches: this.rounds,
      ...this.last,
    };
  }

  listGauges(): Gauge[] {
    return [
      {
        name: "cni_daemon_leftovers_removed_total",
        type: "counter",
        help: "Resources of deleted containers that the daemon has removed.",
        read: () =>
          ORPHAN_KINDS.map((kind) => [{ kind }, this.#removed.get(kind) ?? 0]),
      },
      {
        name: "cni_daemon_leftovers_failed",
        help: "Orphans that the daemon could not remove in its last search.",
        read: () => [[{}, this.#failed.length]],
      },
    ];
  }
}

function isSame(one: FailedRemoval, other: Orphan): boolean {
  return one.kind === other.kind && one.where === other.where &&
    one.container === other.container;
}
