/**
 * Remembering objects of one kind, as long as the API server tells what becomes
 * of them.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { pause } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasStatus } from "../../../kube/kube_error.ts";
import type { ObjectMeta, WatchEvent } from "../../../kube/types.ts";
import { pauseAfter } from "./pauses.ts";
import type { Remembered } from "./remembered.ts";

/**
 * After how long a watch that tells nothing is given up, in milliseconds. A
 * server sends a bookmark each minute, so that the connection may be dead.
 *
 * Source: k8s.io/apiserver pkg/storage/cacher/cacher.go `defaultBookmarkFrequency`.
 */
const SILENCE_MS = 90_000;
/** How often that is looked at, in milliseconds. */
const LOOK_MS = 10_000;

/** A watch that ends sooner is no better than one that fails, in milliseconds. */
const SHORT_MS = 1000;

/**
 * Answers to a version that the server has compacted or does not know; 200 if
 * the list is too long for one answer.
 */
const VERSION_IS_USELESS: readonly number[] = [200, 400, 410, 504];

/** Time limits of a page of the list, in milliseconds: it may be long. */
const PAGE_LIMITS = { perTryMs: 10_000, overallMs: 10_000 };

/** The version to list first: any, from the server's cache. */
const ANY_VERSION = "0";
/** The newest version, which the server reads from etcd, page by page. */
const NEWEST_VERSION = "";

/** The most that is remembered of one kind, in characters. */
const MAX_LENGTH = 16 * 2 ** 20;

/** What is remembered. */
export interface InformerOptions<T> {
  readonly client: Pick<KubeClient, "listPages" | "watch">;
  /** Where the objects are, from the server's root. */
  readonly path: string;
  readonly fieldSelector?: string | undefined;
  /** Makes of an object what is remembered of it; undefined if it is not to be. */
  readonly remember: (object: T) => Remembered | undefined;
  /** What messages call the objects. */
  readonly what: string;
  readonly log: Pick<Log, "info" | "warn">;
  /** In characters; 16 Mi unless told. */
  readonly maxLength?: number;
  /** Objects in one page of the list; 500 by default. */
  readonly limit?: number | undefined;
  /** As {@linkcode SILENCE_MS} and how often that is looked at. */
  readonly silenceMs?: number;
  readonly lookMs?: number;
}

/**
 * Remembers objects: lists them, then watches from the version of that list.
 * Each event and each bookmark moves the version. If the server has forgotten
 * the version (410), the objects are listed again.
 *
 * Source: k8s.io/client-go tools/cache/reflector.go `ListAndWatch`,
 * `relistResourceVersion`.
 */
export class Informer<T extends { readonly metadata?: ObjectMeta }> {
  readonly #options: InformerOptions<T>;
  readonly #objects = new Map<string, Remembered>();
  #length = 0;
  /** Where the next watch starts; undefined if a list comes first. */
  #version: string | undefined;
  /** The list must be at least this new. */
  #leastVersion = ANY_VERSION;
  #isCurrent = false;
  #isTroubleTold = false;
  #heardAtMs = 0;

  /** Remembers nothing yet. */
  constructor(options: InformerOptions<T>) {
    this.#options = options;
  }

  /** Whether the server tells us of changes now. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  /** How many objects are remembered. */
  get size(): number {
    return this.#objects.size;
  }

  /** Finds what is remembered of an object, from whenever that is. */
  find(namespace: string, name: string): Remembered | undefined {
    return this.#objects.get(`${namespace}/${name}`);
  }

  /** Follows the objects until the signal; whatever fails is tried again. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      const startedAtMs = performance.now();
      const wasListed = this.#version !== undefined;
      const isOrderly = await this.#tryToFollow(signal);
      const isShort = performance.now() - startedAtMs < SHORT_MS;
      // A server that was restarted knows no versions before that: who had to
      // wait for it need not wait once more.
      if (this.#version === undefined && wasListed) failures = 0;
      failures = isOrderly && !isShort ? 0 : failures + 1;
      if (failures > 0) await pause(choosePause(failures), signal);
    }
  }

  /** @returns Whether the watch ended as it should */
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
    }
  }

  /**
   * Lists the objects, and forgets those that are gone. Until it is through,
   * what was known stays.
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
        this.#replace(key, this.#options.remember(object));
      }
      version = metadata?.resourceVersion ?? "";
    }
    for (const key of gone) this.#replace(key, undefined);
    this.#moveTo(version);
    return version;
  }

  /** Has the objects listed again; if it was the list that failed, the newest ones. */
  #forgetVersion(): void {
    if (this.#version === undefined) this.#leastVersion = NEWEST_VERSION;
    this.#version = undefined;
  }

  /** The next watch starts there; so does the next list, if that is refused. */
  #moveTo(version: string): void {
    this.#version = this.#leastVersion = version;
  }

  /** A long one is told of once. */
  #tellTrouble(error: unknown): void {
    if (this.#isTroubleTold) return;
    const { what, log } = this.#options;
    log.warn(`Cannot watch ${what}`, { error: describeError(error) });
    this.#isTroubleTold = true;
  }

  #open(): void {
    this.#heardAtMs = performance.now();
    this.#isCurrent = true;
    if (!this.#isTroubleTold) return;
    const { what, log } = this.#options;
    log.info(`Watching ${what} again`);
    this.#isTroubleTold = false;
  }

  async #follow(
    resourceVersion: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, path, fieldSelector } = this.#options;
    const own = new AbortController();
    const both = AbortSignal.any([signal, own.signal]);
    const guard = this.#giveUpWhenSilent(own, both);
    const events = client.watch<T>(path, {
      fieldSelector,
      resourceVersion,
      signal: both,
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
    const { silenceMs = SILENCE_MS, lookMs = LOOK_MS } = this.#options;
    while (!signal.aborted) {
      await pause(lookMs, signal);
      const silentMs = performance.now() - this.#heardAtMs;
      if (this.#isCurrent && silentMs > silenceMs) own.abort();
    }
  }

  #take({ type, object }: WatchEvent<T>): void {
    this.#heardAtMs = performance.now();
    const { resourceVersion } = object.metadata ?? {};
    // Events come in the order of their versions, unlike the items of a list.
    if (resourceVersion) this.#moveTo(resourceVersion);
    if (type === "BOOKMARK") return;
    this.#replace(
      keyOf(object),
      type === "DELETED" ? undefined : this.#options.remember(object),
    );
  }

  /** What is too much is not remembered: it is asked for when it is needed. */
  #replace(key: string, remembered: Remembered | undefined): void {
    const { maxLength = MAX_LENGTH } = this.#options;
    this.#length -= this.#objects.get(key)?.text.length ?? 0;
    this.#objects.delete(key);
    const length = remembered?.text.length ?? 0;
    if (remembered === undefined || this.#length + length > maxLength) return;
    this.#length += length;
    this.#objects.set(key, remembered);
  }
}

function keyOf({ metadata }: { readonly metadata?: ObjectMeta }): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}

/** A list that is to be as new as some version comes from the cache only if it is whole. */
function isPaged(resourceVersion: string): boolean {
  return [ANY_VERSION, NEWEST_VERSION].includes(resourceVersion);
}

/** All daemons of a cluster lose their server at the same moment. */
function choosePause(failures: number): number {
  return pauseAfter(failures) * (0.5 + Math.random() / 2);
}
