/**
 * Watches: report changes of objects as they happen.
 *
 * @module
 */

import { selectorOf } from "./listing.ts";
import { apiVersionOf, type KubeObject } from "./objects.ts";
import { parsingProblem, StatusError, tooOld } from "./status.ts";
import type { Change, ObjectStore } from "./store.ts";
import type { Target } from "./target.ts";

/** The output of a watch. */
export interface WatchOutput {
  /** Sends text. */
  write(text: string): void;
  /** Ends the response. */
  end(): void;
}

/** The watched objects. */
export type WatchCall = Target & { readonly query: URLSearchParams };

/** A watch that runs until it is stopped or times out. */
export class Watch {
  readonly #store: ObjectStore;
  readonly #call: WatchCall;
  readonly #output: WatchOutput;
  readonly #selects: (object: KubeObject) => boolean;
  readonly #stack = new DisposableStack();

  /**
   * Sends past changes.
   *
   * @param open Starts the response
   *
   * @throws {StatusError} 400 or 500 before the first event
   */
  constructor(store: ObjectStore, call: WatchCall, open: () => WatchOutput) {
    this.#store = store;
    this.#call = call;
    this.#selects = selectorOf(call);
    const version = readVersion(call.query);
    this.#output = open();
    if (this.#tellPast(version)) this.#follow();
    else this.end();
  }

  /** Calls when it has stopped; immediately if it already did. */
  onEnd(listener: () => void): void {
    if (this.#stack.disposed) listener();
    else this.#stack.defer(listener);
  }

  /** Sends nothing more, and leaves the response open. */
  stop(): void {
    this.#stack.dispose();
  }

  /** Stops and ends the response, as a server does after `timeoutSeconds`. */
  end(): void {
    this.stop();
    this.#output.end();
  }

  /**
   * Sends a bookmark if the client accepts them.
   *
   * @param annotations What there is to say besides
   */
  bookmark(annotations?: Readonly<Record<string, string>>): void {
    const { query, resource } = this.#call;
    if (query.get("allowWatchBookmarks") !== "true") return;
    const metadata = {
      resourceVersion: String(this.#store.version),
      ...annotations && { annotations },
    };
    this.#tell("BOOKMARK", {
      kind: resource.kind,
      apiVersion: apiVersionOf(resource),
      metadata,
    });
  }

  /** @returns Whether the watch can continue from that version */
  #tellPast(version: number): boolean {
    const { resource } = this.#call;
    const { oldest, changes } = this.#store.watchWindowOf(resource.name);
    if (version === 0) {
      const objects = this.#store.list(resource.name).filter(this.#selects);
      for (const object of objects) this.#tell("ADDED", object);
      this.bookmark({ "k8s.io/initial-events-end": "true" });
    } else if (version < oldest) {
      // Only in the stream: the response status is 200.
      this.#tell("ERROR", tooOld(version, oldest).toStatus());
      return false;
    }
    if (version === 0) return true;
    for (const change of changes) {
      if (change.version > version) this.#tellChange(change);
    }
    return true;
  }

  #follow(): void {
    this.#stack.defer(
      this.#store.listen((change) => this.#tellChange(change)),
    );
    const seconds = Number(this.#call.query.get("timeoutSeconds") ?? 0);
    if (seconds === 0) return;
    const timer = setTimeout(() => this.#timeOut(), seconds * 1000);
    this.#stack.defer(() => clearTimeout(timer));
  }

  #timeOut(): void {
    this.bookmark();
    this.end();
  }

  /** For this watch, an object that is no longer selected is deleted. */
  #tellChange({ resource, object, before, isRemoval }: Change): void {
    if (resource !== this.#call.resource.name) return;
    const was = before !== undefined && this.#selects(before);
    const is = !isRemoval && this.#selects(object);
    if (was && is) this.#tell("MODIFIED", object);
    else if (is) this.#tell("ADDED", object);
    else if (was) this.#tell("DELETED", object);
  }

  #tell(type: string, object: unknown): void {
    this.#output.write(`${JSON.stringify({ type, object })}\n`);
  }
}

/** @throws {StatusError} 500 */
function readVersion(query: URLSearchParams): number {
  const text = query.get("resourceVersion") ?? "";
  if (/^\d*$/.test(text)) return Number(text);
  const problem = parsingProblem("ParseUint", text);
  const message = `resourceVersion: Invalid value: "${text}": ${problem}`;
  throw new StatusError(500, "", message);
}
