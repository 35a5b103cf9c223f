/**
 * A veth pair between a temporary host and its sandbox, like any plugin creates it,
 * for bandwidth to limit; and the output of `tc` about it.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { isAtLeast } from "../../../cni/version.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { batchIn, linkNames, runIn } from "../../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../../testing/test_hosts.ts";

export {
  assertFailure,
  assertSuccess,
} from "../../../tests/_harness/call_outcome.ts";

/** Runs a plugin: ours, or a different program. */
export type RunPlugin = (
  hosts: TestHosts,
  command: string,
  config: unknown,
  options: CallOptions,
) => CallOutput | Promise<CallOutput>;

/** Runs our plugin in this process. */
const runOurs: RunPlugin = (hosts, command, config, options) =>
  hosts.run("bandwidth", command, config, options);

/** Limits in the form of configurations. */
export const LIMITS = {
  ingressRate: 8,
  ingressBurst: 8,
  egressRate: 16,
  egressBurst: 8,
};

/** Limits that let full-size packets pass. */
export const WIDE = {
  ingressRate: 100e6,
  ingressBurst: 10e6,
  egressRate: 50e6,
  egressBurst: 5e6,
};

/** The default name of {@linkcode LimitedPair}'s IFB. */
export const IFB = "bwpa8eda89404b7";
/** The name of its host's end. */
export const HOST_END = "host-veth";

/** Options of a veth pair. */
export interface VethOptions {
  readonly mtu?: number;
  readonly hostEnd?: string;
  readonly ifName?: string;
  readonly network?: string;
  readonly containerId?: string;
  readonly cniVersion?: string;
}

/** A result, as a plugin prints it. */
export interface PrevResult {
  readonly cniVersion: string;
  readonly interfaces: readonly {
    readonly name: string;
    readonly sandbox?: string;
  }[];
  readonly ips: readonly object[];
}

/** A veth pair on a host, and the calls of bandwidth for it. */
export class LimitedPair {
  readonly hosts: TestHosts;
  readonly hostEnd: string;
  readonly ifName: string;
  readonly #network: string;
  readonly #containerId: string;
  readonly #cniVersion: string;

  constructor(hosts: TestHosts, options: VethOptions = {}) {
    this.hosts = hosts;
    this.hostEnd = options.hostEnd ?? HOST_END;
    this.ifName = options.ifName ?? "container-veth";
    this.#network = options.network ?? "cni-plugin-bandwidth-test";
    this.#containerId = options.containerId ?? "dummy";
    this.#cniVersion = options.cniVersion ?? "1.1.0";
    using host = Rtnl.open(hosts.host.path);
    using sandbox = Rtnl.open(hosts.sandbox.path);
    const { linkIndex = 0 } = host.link.addVeth({
      name: this.hostEnd,
      mtu: options.mtu ?? 1024,
      peer: { netns: hosts.sandbox, name: this.ifName },
    });
    sandbox.link.set(linkIndex, { isUp: true });
    // The request makes the kernel notice that both ends have a carrier.
    sandbox.link.get(linkIndex);
    host.link.get(this.hostEnd);
  }

  /** The result of the previous plugin. */
  get prevResult(): PrevResult {
    const ip = { interface: 1, address: "10.0.0.2/24", gateway: "10.0.0.1" };
    const version = isAtLeast(this.#cniVersion, "1.0.0")
      ? {}
      : { version: "4" };
    return {
      cniVersion: this.#cniVersion,
      interfaces: [
        { name: this.hostEnd },
        { name: this.ifName, sandbox: this.hosts.sandbox.path },
      ],
      ips: [{ ...version, ...ip }],
    };
  }

  /** Returns the configuration of a call. */
  config(keys: object): Record<string, unknown> {
    return {
      cniVersion: this.#cniVersion,
      name: this.#network,
      type: "bandwidth",
      prevResult: this.prevResult,
      ...keys,
    };
  }

  /** Calls bandwidth for this attachment. */
  async run(
    command: string,
    keys: object,
    options: CallOptions = {},
    run: RunPlugin = runOurs,
  ): Promise<CallOutput> {
    return await run(this.hosts, command, this.config(keys), {
      containerId: this.#containerId,
      ifName: this.ifName,
      ...options,
    });
  }

  /** Adds limits, which must succeed, and returns the result. */
  async add(keys: object, run?: RunPlugin): Promise<CallOutput["json"]> {
    const { exitCode, stdout, json } = await this.run("ADD", keys, {}, run);
    assertEquals(exitCode, 0, stdout);
    return json;
  }

  /** Lists the host's limits and links. */
  limits(): HostLimits {
    return hostLimits(this.hosts.host);
  }
}

/** Traffic control of a host, without the objects that the kernel adds to each link. */
export interface HostLimits {
  readonly links: string[];
  readonly qdiscs: string[];
  readonly filters: string[];
}

/**
 * Lists a host's links, qdiscs and filters.
 *
 * @param links The names of its links, if they are known
 */
export function hostLimits(
  host: NetNs,
  links: string[] = linkNames(host),
): HostLimits {
  const commands = links.flatMap((name) => [
    `filter show dev ${name}`,
    `filter show dev ${name} ingress`,
  ]);
  const lines = batchIn(host, "tc", [], ["qdisc", ...commands])
    .split("\n").filter((line) => line !== "");
  const isQdisc = (line: string): boolean => line.startsWith("qdisc ");
  return {
    links,
    qdiscs: lines.filter(isQdisc).filter((line) => !line.includes("noqueue")),
    // The kernel numbers the actions of a namespace.
    filters: lines.filter((line) => !isQdisc(line))
      .map((line) => line.replace(/\bindex \d+ ref\b/, "ref")),
  };
}

/**
 * Lists the output of `tc -j`, as in `tcJson(host, "qdisc", "show", "dev", "veth0")`.
 */
// deno-lint-ignore no-explicit-any -- tests look into it as they please
export function tcJson(netns: NetNs, ...args: string[]): any[] {
  const text = runIn(netns, "tc", "-j", ...args);
  return text.trim() === "" ? [] : JSON.parse(text);
}
