/**
 * Pods of a node in tests, and their sandboxes.
 *
 * @module
 */

import type { JsonObject } from "../../cni/json/json.ts";
import { NetNs } from "../../ffi/netns.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";

/** The annotation by which pods choose networks. */
export const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** Options of a pod. */
export interface PodOptions {
  /** The networks that it chooses; an object is written as JSON. */
  readonly networks?: string | readonly JsonObject[];
  readonly annotations?: Readonly<Record<string, string>>;
  /** More of the API's metadata, as `labels`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Keys of the API's object, as `status`. */
  readonly object?: Readonly<Record<string, unknown>>;
}

/** A pod of namespace `default`. */
export class HostPod implements Disposable {
  readonly name: string;
  readonly uid: string;
  readonly containerId: string;
  /** Its network namespace, with its loopback up. */
  readonly sandbox: NetNs = NetNs.create();
  readonly annotations: Readonly<Record<string, string>>;
  #isGone = false;

  /** Creates the sandbox. */
  constructor(name: string, options: PodOptions) {
    const { networks, annotations = {} } = options;
    this.name = name;
    this.uid = `uid-of-${name}`;
    this.containerId = `sandbox-of-${name}`;
    const text = typeof networks === "object"
      ? JSON.stringify(networks)
      : networks;
    this.annotations = {
      ...annotations,
      ...text === undefined ? {} : { [NETWORKS]: text },
    };
    runIn(this.sandbox, "ip", "link", "set", "lo", "up");
  }

  /** Lists what plugins have made in the sandbox: links and rules, with which addresses and routes go. */
  listInside(): string[] {
    if (this.#isGone) return [];
    const links = ipJson(this.sandbox, "link")
      .map(({ ifname }: { ifname: string }) => `${this.name}: link ${ifname}`)
      .filter((link: string) => !link.endsWith(" lo"));
    const rules = runIn(this.sandbox, "ip", "rule").trim().split("\n")
      .filter((line) => !/lookup (local|main|default)\s*$/.test(line))
      .map((line) => `${this.name}: rule ${line.trim()}`);
    return [...links, ...rules];
  }

  /** Removes the sandbox with its content. */
  [Symbol.dispose](): void {
    this.#isGone = true;
    this.sandbox[Symbol.dispose]();
  }
}
