/**
 * The way of a packet from a container to the outside, and what its steps know.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { ifPossible } from "../../../base/files/io.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import type { NetworkTopology } from "../../../metadata/plugin_metadata.ts";
import { decodeResult } from "../../../cni/result/decoding.ts";
import type { Result } from "../../../cni/result/result.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Lookup } from "../../../ffi/rtnl/route.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import { METADATA } from "../../../plugins/lists/metadata.ts";
import type { NodeAttachment } from "../../attachments/node_attachments.ts";
import { listCachedPlugins } from "../live.ts";
import type { Node } from "../node.ts";

/**
 * A destination far away. Nothing is sent to it; only routes are looked up.
 *
 * Source: RFC 5737, RFC 3849.
 */
export const FAR: Readonly<Record<IpFamily, Ip>> = {
  4: Ip.parse("203.0.113.1"),
  6: Ip.parse("2001:db8:ffff::1"),
};

/** The outcome of a step that does not just let the packet pass. */
export interface Outcome {
  /** end: it does not pass. leaves: the rest of its way is not on this node. */
  readonly state: "end" | "leaves";
  /** The evidence, without a full stop. */
  readonly text: string;
  /** The command that fixes it. */
  readonly command?: string | undefined;
  /** Advice for a person where no command can decide. */
  readonly advice?: string | undefined;
  /** The command that shows more. */
  readonly look?: string | undefined;
  /** The interface that the packet takes instead of its own. */
  readonly takes?: string | undefined;
}

/** Help where a packet does not pass. */
export type Help = string | Pick<Outcome, "command" | "advice" | "look">;

/** One step of the way. */
export interface Step {
  readonly name: string;
  /** @returns Undefined if the packet passes, or the step does not apply */
  readonly run: (
    trip: Trip,
  ) => Outcome | undefined | Promise<Outcome | undefined>;
}

/**
 * Creates an outcome: the packet does not pass.
 *
 * @param help A string is the command that fixes it
 */
export function ends(text: string, help: Help = {}): Outcome {
  return { state: "end", text, ...readHelp(help) };
}

function readHelp(help: Help): Pick<Outcome, "command" | "advice" | "look"> {
  return typeof help === "string" ? { command: help } : help;
}

/** Writes a command of `ip` for a family, which names it only for IPv6. */
export function inFamily(family: IpFamily, command: string): string {
  return family === 4 ? command : command.replace(/^ip /, "ip -6 ");
}

/** Creates an outcome: the packet leaves this node. */
export function leaves(text: string): Outcome {
  return { state: "leaves", text };
}

/** Where a packet starts. */
export interface Start {
  /** Path of the container's namespace. */
  readonly netns: string;
  readonly ifName: string;
  /** The sender's address, with the prefix length of ADD. */
  readonly address: Cidr;
  /** Undefined if the cache does not have it. */
  readonly attachment: NodeAttachment | undefined;
}

/** A packet on its way. Steps note what later steps need. */
export class Trip implements Disposable {
  readonly node: Node;
  readonly start: Start;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** The container's interface. */
  link: Link | undefined;
  /** The other end of its veth on the host, or its lower link. */
  hostEnd: Link | undefined;
  /** The link by which the packet comes to the host's routing. */
  entry: Link | undefined;
  /** The route in the container. */
  route: Lookup | undefined;
  /** The route on the host. */
  hostRoute: Lookup | undefined;

  /** @throws {SyscallError} If the namespace cannot be opened */
  constructor(node: Node, start: Start) {
    this.node = node;
    this.start = start;
    this.sandbox = Rtnl.open(start.netns);
  }

  /** The address family. */
  get family(): IpFamily {
    return this.start.address.family;
  }

  /** A destination outside of the node, for which routes are looked up. */
  get destination(): Ip {
    return FAR[this.family];
  }

  /** The plugins that made the attachment. */
  get plugins(): JsonObject[] {
    const { attachment } = this.start;
    return attachment === undefined ? [] : listCachedPlugins(attachment);
  }

  /** The router, as the result of ADD has it. */
  get gateway(): Ip | undefined {
    const { attachment, address } = this.start;
    const result = ifPossible(() => decodeResult(attachment?.result ?? {}));
    return result?.ips.find((one) => one.address.ip.equals(address.ip))
      ?.gateway;
  }

  /** Whether ADD set up a default route in the container's namespace; undefined if unknown. */
  get hasDefaultRoute(): boolean | undefined {
    return this.#routes?.some(({ dst }) => dst.prefixLength === 0);
  }

  /** Whether ADD set up any route in the container's namespace, as far as known. */
  get hasRoutes(): boolean {
    return (this.#routes?.length ?? 0) > 0;
  }

  /** The routes of the result of ADD, of this family. */
  get #routes(): Result["routes"] | undefined {
    const { attachment } = this.start;
    const result = attachment &&
      ifPossible(() => decodeResult(attachment.result ?? {}));
    return result?.routes.filter(({ dst }) => dst.family === this.family);
  }

  /** Formats a command that runs in the container's namespace. */
  inSandbox(command: string): string {
    return shell`nsenter --net=${this.start.netns} ` + command;
  }

  /** Closes the namespace. */
  [Symbol.dispose](): void {
    this.sandbox[Symbol.dispose]();
  }
}

/** Lists where packets of a namespace start: each address of each interface. */
export function listStarts(
  netns: string,
  attachments: readonly NodeAttachment[],
): Start[] {
  const cached = attachments.flatMap((attachment) => {
    const result = ifPossible(() => decodeResult(attachment.result ?? {}));
    const { ifName } = attachment;
    return (result?.ips ?? []).map(({ address }) => ({
      netns: attachment.netns,
      ifName,
      address,
      attachment,
    }));
  });
  return cached.length > 0 ? cached : listUncached(netns);
}

/** Lists the addresses of a namespace that no runtime has in its cache. */
function listUncached(netns: string): Start[] {
  using rtnl = Rtnl.open(netns);
  const links = rtnl.link.list();
  return rtnl.address.list().flatMap(({ ifindex, address }) => {
    const link = links.find(({ index }) => index === ifindex);
    const { ip } = address;
    if (link === undefined || ip.isLoopback || ip.isLinkLocal) return [];
    return [{ netns, ifName: link.name, address, attachment: undefined }];
  });
}

/** Returns what a plugin of this project does to the network; undefined for others. */
export function networkOf({ type }: JsonObject): NetworkTopology | undefined {
  return METADATA.get(String(type))?.network;
}
