/**
 * The ends of probes: addresses of containers, and of the node.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import type { Result } from "../../cni/result/result.ts";
import { valueOf } from "../../metadata/plugin_metadata.ts";
import { isMissingNetns, NetNs } from "../../ffi/netns.ts";
import { isBridge } from "../../ffi/rtnl/link.ts";
import type { Link } from "../../ffi/rtnl/link_types.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Ip } from "../../net/ip.ts";
import type { NodeAttachment } from "../attachments/node_attachments.ts";
import { getTarget } from "../attachments/target.ts";
import {
  findHostEnd,
  listCachedPlugins,
  nameAttachment,
} from "../doctor/live.ts";
import type { Node } from "../doctor/node.ts";
import { listStarts, type Start } from "../doctor/way/trip.ts";
import type { Origin } from "./packet.ts";
import type { Place } from "./trace.ts";

/** An address of a container. */
export interface Endpoint {
  readonly start: Start;
  readonly origin: Origin;
  /** Name of its network; "" if it is unknown. */
  readonly network: string;
  /** Its interface; undefined if it is gone. */
  readonly link: Link | undefined;
  /** Its router, according to ADD; else by its routes. */
  readonly gateway: Ip | undefined;
  /** Whether the node is its router. */
  readonly isRouted: boolean;
  /** Whether it has a default route of its own, as far as known. */
  readonly hasDefault: boolean;
  /** Whether the node gives its packets an address of its own. */
  readonly isMasqueraded: boolean;
  /** Its namespace, and the links of it on the host. */
  readonly place: Place;
  readonly hostLinks: readonly string[];
}

/** Endpoints with their open namespaces. */
export class Endpoints implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #node: Node;
  /** All that were added. */
  readonly all: Endpoint[] = [];

  /** @param node Borrowed, not closed */
  constructor(node: Node) {
    this.#node = node;
  }

  /**
   * Adds all addresses of a namespace.
   *
   * @param name What to call it without an attachment
   * @throws {SyscallError} If the namespace cannot be opened
   */
  add(
    netns: string,
    attachments: readonly NodeAttachment[],
    name: string,
  ): Endpoint[] {
    const open = this.#stack.use(NetNs.open(netns));
    const found = listStarts(netns, attachments)
      .map((start) => look(this.#node, open, start, name));
    this.all.push(...found);
    return found;
  }

  /**
   * Adds all addresses of what a person names: a container, or a namespace.
   *
   * @throws {Error} If it is unknown, cannot be looked into, or has no address
   */
  addNamed(name: string): Endpoint[] {
    const { netns, attachments } = getTarget(name, this.#node.directories);
    if (netns === "") throw new Error(`The namespace of "${name}" is unknown`);
    let found: Endpoint[];
    try {
      found = this.add(netns, attachments, name);
    } catch (cause) {
      const reason = isMissingNetns(cause) ? ": its namespace is gone" : "";
      throw new Error(`Cannot look into "${name}"${reason}`, { cause });
    }
    if (found.length > 0) return found;
    throw new Error(`"${name}" has no address: no plugin has attached it`);
  }

  /** Closes the namespaces. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

function look(node: Node, netns: NetNs, start: Start, name: string): Endpoint {
  using sandbox = Rtnl.open(start.netns);
  const { attachment, address, ifName } = start;
  const { family } = address;
  const link = sandbox.link.find(ifName);
  const end = findHostEnd(node, link);
  const master = end?.masterIndex === undefined
    ? undefined
    : node.host.link.find(end.masterIndex);
  const result = attachment &&
    ifPossible(() => decodeResult(attachment.result ?? {}));
  const routes = sandbox.route.list({ family })
    .filter(({ destination }) => destination.prefixLength === 0);
  const gateway = gatewayOf(result, address.ip) ??
    routes.find(({ ifindex }) => ifindex === link?.index)?.gateway;
  return {
    start,
    origin: {
      name: attachment === undefined
        ? `${name} ${ifName}`
        : nameAttachment(attachment),
      netns,
      source: address.ip,
    },
    network: attachment?.network ?? "",
    link,
    gateway,
    isRouted: gateway !== undefined && node.host.address.list({ family })
      .some((own) => own.address.ip.equals(gateway)),
    hasDefault: result === undefined
      ? routes.length > 0
      : result.routes.some(({ dst }) =>
        dst.family === family && dst.prefixLength === 0
      ),
    isMasqueraded: attachment !== undefined &&
      listCachedPlugins(attachment)
        .some((conf) => valueOf(conf, "ipMasq") === true),
    place: { netns, links: [] },
    hostLinks: [end, ...master && isBridge(master) ? [master] : []]
      .flatMap((one) => one?.name ?? []),
  };
}

function gatewayOf(result: Result | undefined, ip: Ip): Ip | undefined {
  return result?.ips.find(({ address }) => address.ip.equals(ip))?.gateway;
}
