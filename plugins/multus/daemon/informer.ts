/**
 * Remembering objects of one kind, as long as the API server tells what becomes
 * of them.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { pause } from "../../../cni/invoke/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasStatus } from "../../../kube/kube_error.ts";
import type { ObjectMeta, WatchEvent } from "../../../kube/types.ts";
import { pauseAfter } from "./pauses.ts";
import type { Remembered } from "./remembered.ts";

/** What is told when a watch begins: all there is. */
const FROM_THE_BEGINNING = "0";

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

/** The statuses of an answer that says that the version is of no use any more. */
const VERSION_IS_USELESS: readonly number[] = [400, 410, 504];

/** The most that is remembered of one kind, in characters. */
const MAX_LENGTH = 16 * 2 ** 20;

/** What is remembered. */
export interface InformerOptions<T> {
  readonly client: Pick<KubeClient, "watch">;
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
  /** As {@linkcode SILENCE_MS} and how often that is looked at. */
  readonly silenceMs?: number;
  readonly lookMs?: number;
}

/**
 * Remembers objects. It never lists: a watch from the beginning tells of each
 * object by itself, so that no more than one has to be in memory with all that
 * the server knows of it. Nobody says when that is all, and nobody needs to
 * know: who does not find an object here asks the API server.
 */
export class Informer<T extends { readonly metadata?: ObjectMeta }> {
  readonly #options: InformerOptions<T>;
  readonly #objects = new Map<string, Remembered>();
  #length = 0;
  #version = FROM_THE_BEGINNING;
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

  get #isAtBeginning(): boolean {
    return this.#version === FROM_THE_BEGINNING;
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
      const wasAtBeginning = this.#isAtBeginning;
      const isOrderly = await this.#tryToFollow(signal);
      const isShort = performance.now() - startedAtMs < SHORT_MS;
      // A server that was restarted knows no versions before that: who had to
      // wait for it need not wait once more.
      if (this.#isAtBeginning && !wasAtBeginning) failures = 0;
      failures = isOrderly && !isShort ? 0 : failures + 1;
      if (failures > 0) await pause(choosePause(failures), signal);
    }
  }

  /** @returns Whether the watch ended as it should */
  async #tryToFollow(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#follow(signal);
      return true;
    } catch (error) {
      if (signal.aborted) return true;
      this.#tellTrouble(error);
      if (isVersionUseless(error)) this.#forgetAll();
      return false;
    } finally {
      this.#isCurrent = false;
    }
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

  async #follow(signal: AbortSignal): Promise<void> {
    const { client, path, fieldSelector } = this.#options;
    const own = new AbortController();
    const both = AbortSignal.any([signal, own.signal]);
    const guard = this.#giveUpWhenSilent(own, both);
    const events = client.watch<T>(path, {
      fieldSelector,
      resourceVersion: this.#version,
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
    const { namespace = "", name = "", resourceVersion = "" } =
      object.metadata ?? {};
    // What there is at the beginning comes in any order.
    if (isLater(resourceVersion, this.#version)) {
      this.#version = resourceVersion;
    }
    if (type === "BOOKMARK") return;
    this.#replace(
      `${namespace}/${name}`,
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

  #forgetAll(): void {
    this.#version = FROM_THE_BEGINNING;
    this.#objects.clear();
    this.#length = 0;
  }
}

/**
 * Compares versions.
 *
 * Source: Kubernetes API concepts, "Resource versions": decimal numbers.
 */
function isLater(version: string, other: string): boolean {
  if (!/^\d+$/.test(version)) return false;
  return version.length === other.length
    ? version > other
    : version.length > other.length;
}

function isVersionUseless(error: unknown): boolean {
  return hasStatus(error, ...VERSION_IS_USELESS);
}

/** All daemons of a cluster lose their server at the same moment. */
function choosePause(failures: number): number {
  return pauseAfter(failures) * (0.5 + Math.random() / 2);
}
