/**
 * Caches the objects of one kind, and follows their changes by a watch.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { JoinedSignal, pause, waitUntil } from "../../base/deadline.ts";
import type { Log } from "../../base/log/log.ts";
import type { KubeClient } from "../client.ts";
import { hasStatus } from "../kube_error.ts";
import { backoff } from "../retry.ts";
import type { ObjectMeta, WatchEvent } from "../types.ts";

/**
 * Time after which a silent watch is given up, in milliseconds. A server sends
 * a bookmark each minute, so the connection is probably dead.
 *
 * Source: k8s.io/apiserver pkg/storage/cacher/cacher.go
 * `defaultBookmarkFrequency`.
 */
const SILENCE_MS = 90_000;
/** Interval between checks for silence, in milliseconds. */
const CHECK_MS = 10_000;

/** Pauses after failures, in milliseconds. */
const FIRST_PAUSE_MS = 500, LONGEST_PAUSE_MS = 30_000;

/** A watch that ends sooner counts as failed, in milliseconds. */
const SHORT_MS = 1000;

/**
 * Statuses for a version that the server has compacted or does not know; 200 if
 * the list is too long for one answer.
 */
const VERSION_IS_USELESS: readonly number[] = [200, 400, 410, 504];

/**
 * Time limits of a page of the list, in milliseconds, because a page may be
 * long.
 */
const PAGE_LIMITS = { perTryMs: 10_000, overallMs: 10_000 };

/** The version of the first list: any, from the server's cache. */
const ANY_VERSION = "0";
/** The newest version, which the server reads from etcd, page by page. */
const NEWEST_VERSION = "";

/** Size limit of the cache for one kind, in characters. */
const MAX_LENGTH = 16 * 2 ** 20;

/** A cached object. */
export interface CachedObject {
  /** JSON. */
  readonly text: string;
  /** The UIDs by which the runtime might identify it. */
  readonly uids: readonly string[];
}

/** Options of an informer. */
export interface InformerOptions<T> {
  readonly client: Pick<KubeClient, "listPages" | "watch">;
  /** Path of the objects, from the server's root. */
  readonly path: string;
  readonly fieldSelector?: string | undefined;
  /** Reduces an object to its cached part; undefined if it is not cached. */
  readonly cachedPart: (object: T) => CachedObject | undefined;
  /** The objects' name in messages. */
  readonly what: string;
  readonly log: Pick<Log, "info" | "warn">;
  /** Size limit in characters; 16 Mi by default. */
  readonly maxLength?: number;
  /** Objects per page of the list; 500 by default. */
  readonly limit?: number | undefined;
  /** Like {@linkcode SILENCE_MS}, and the interval between checks. */
  readonly silenceMs?: number;
  readonly checkMs?: number;
}

/**
 * Caches objects: lists them, then watches from the version of that list. Each
 * event and each bookmark updates the version. If the server no longer has the
 * version (410), the objects are listed again.
 *
 * Source: k8s.io/client-go tools/cache/reflector.go `ListAndWatch`,
 * `relistResourceVersion`.
 */
export class Informer<T extends { readonly metadata?: ObjectMeta }> {
  readonly #options: InformerOptions<T>;
  readonly #objects = new Map<string, CachedObject>();
  #length = 0;
  /**
   * The version at which the next watch starts; undefined if a list comes
   * first.
   */
  #version: string | undefined;
  /** The minimum version of the next list. */
  #leastVersion = ANY_VERSION;
  #isCurrent = false;
  #isTroubleLogged = false;
  #heardAtMs = 0;
  /** Resolved by the next change. */
  #changed = Promise.withResolvers<void>();

  /** Creates an empty cache. */
  constructor(options: InformerOptions<T>) {
    this.#options = options;
  }

  /** The objects' name in messages. */
  get what(): string {
    return this.#options.what;
  }

  /** Whether a watch currently reports changes. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  /** Number of cached objects. */
  get size(): number {
    return this.#objects.size;
  }

  /** Returns the cached parts of all objects, which may be stale. */
  list(): readonly CachedObject[] {
    return [...this.#objects.values()];
  }

  /** Returns the cached part of an object, which may be stale. */
  find(namespace: string, name: string): CachedObject | undefined {
    return this.#objects.get(`${namespace}/${name}`);
  }

  /**
   * Waits for an object while a watch reports changes.
   *
   * @param isIt Accepts the object
   * @returns The object's cached part; undefined if it does not arrive
   */
  async waitFor(
    { namespace, name }: { readonly namespace: string; readonly name: string },
    isIt: (cached: CachedObject) => boolean,
    signal: AbortSignal,
  ): Promise<CachedObject | undefined> {
    for (;;) {
      const found = this.find(namespace, name);
      if (found !== undefined && isIt(found)) return found;
      if (!this.#isCurrent || signal.aborted) return undefined;
      await waitUntil(this.#changed.promise, signal);
    }
  }

  /** Follows the objects until the signal; retries after any failure. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      const startedAtMs = performance.now();
      const wasListed = this.#version !== undefined;
      const isOrderly = await this.#tryToFollow(signal);
      const isShort = performance.now() - startedAtMs < SHORT_MS;
      // A restarted server does not know older versions. The client already
      // waited for it, so it lists again without another long pause.
      if (this.#version === undefined && wasListed) failures = 0;
      failures = isOrderly && !isShort ? 0 : failures + 1;
      if (failures > 0) await pause(choosePause(failures), signal);
    }
  }

  /** @returns Whether the watch ended normally */
  async #tryToFollow(signal: AbortSignal): Promise<boolean> {
    try {
      const version = this.#version ?? await this.#list(signal);
      await this.#follow(version, signal);
      return true;
    } catch (error) {
      if (signal.aborted) return true;
      this.#tellTrouble(error);
      if (hasStatus(error, ...VERSION_IS_USELESS)) this.#forgetVersion();
      return false;
    } finally {
      this.#isCurrent = false;
      this.#wake();
    }
  }

  /**
   * Lists the objects, and drops deleted objects at the end. Until then the old
   * objects remain.
   *
   * @returns The version of the list
   */
  async #list(signal: AbortSignal): Promise<string> {
    const { client, path, fieldSelector, limit } = this.#options;
    const resourceVersion = this.#leastVersion;
    const gone = new Set(this.#objects.keys());
    let version = "";
    const pages = client.listPages<T>(path, {
      ...PAGE_LIMITS,
      fieldSelector,
      limit: isPaged(resourceVersion) ? limit : 0,
      resourceVersion,
      signal,
    });
    for await (const { items = [], metadata } of pages) {
      for (const object of items) {
        const key = keyOf(object);
        gone.delete(key);
        this.#replace(key, this.#options.cachedPart(object));
      }
      version = metadata?.resourceVersion ?? "";
    }
    for (const key of gone) this.#replace(key, undefined);
    this.#moveTo(version);
    return version;
  }

  /**
   * Makes the next run list the objects again, in the newest version if the
   * list itself failed.
   */
  #forgetVersion(): void {
    if (this.#version === undefined) this.#leastVersion = NEWEST_VERSION;
    this.#version = undefined;
  }

  /**
   * Sets the start of the next watch, and the minimum version of the next list.
   */
  #moveTo(version: string): void {
    this.#version = this.#leastVersion = version;
  }

  /** Logs a lasting problem once. */
  #tellTrouble(error: unknown): void {
    if (this.#isTroubleLogged) return;
    const { what, log } = this.#options;
    log.warn(`Cannot watch ${what}`, { error: describeError(error) });
    this.#isTroubleLogged = true;
  }

  #open(): void {
    this.#heardAtMs = performance.now();
    this.#isCurrent = true;
    if (!this.#isTroubleLogged) return;
    const { what, log } = this.#options;
    log.info(`Watching ${what} again`);
    this.#isTroubleLogged = false;
  }

  async #follow(
    resourceVersion: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, path, fieldSelector } = this.#options;
    const own = new AbortController();
    using both = new JoinedSignal(signal, own.signal);
    const guard = this.#giveUpWhenSilent(own, both.signal);
    const events = client.watch<T>(path, {
      fieldSelector,
      resourceVersion,
      signal: both.signal,
      onOpen: () => this.#open(),
    });
    try {
      for await (const event of events) this.#take(event);
    } finally {
      own.abort();
      await guard;
    }
  }

  async #giveUpWhenSilent(
    own: AbortController,
    signal: AbortSignal,
  ): Promise<void> {
    const { silenceMs = SILENCE_MS, checkMs = CHECK_MS } = this.#options;
    while (!signal.aborted) {
      await pause(checkMs, signal);
      const silentMs = performance.now() - this.#heardAtMs;
      if (this.#isCurrent && silentMs > silenceMs) own.abort();
    }
  }

  #take({ type, object }: WatchEvent<T>): void {
    this.#heardAtMs = performance.now();
    const { resourceVersion } = object.metadata ?? {};
    // Unlike the items of a list, events are ordered by version.
    if (resourceVersion) this.#moveTo(resourceVersion);
    if (type === "BOOKMARK") return;
    this.#replace(
      keyOf(object),
      type === "DELETED" ? undefined : this.#options.cachedPart(object),
    );
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** An object beyond the size limit is not cached, but requested on demand. */
  #replace(key: string, cached: CachedObject | undefined): void {
    const { maxLength = MAX_LENGTH } = this.#options;
    this.#length -= this.#objects.get(key)?.text.length ?? 0;
    this.#objects.delete(key);
    const length = cached?.text.length ?? 0;
    if (cached === undefined || this.#length + length > maxLength) return;
    this.#length += length;
    this.#objects.set(key, cached);
  }
}

function keyOf({ metadata }: { readonly metadata?: ObjectMeta }): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}

/**
 * The server's cache only answers a list with a minimum version if it is not
 * paged.
 */
function isPaged(resourceVersion: string): boolean {
  return [ANY_VERSION, NEWEST_VERSION].includes(resourceVersion);
}

/**
 * Adds jitter, because all daemons of a cluster lose their server at the same
 * time.
 */
function choosePause(failures: number): number {
  const pauseMs = backoff(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  return pauseMs * (0.5 + Math.random() / 2);
}
