/**
 * Bridges with VLANs on a kernel without them.
 *
 * What is asked about VLANs is answered from a table, which is kept as the
 * kernel keeps it; everything else goes to the kernel. So it is tested what a
 * plugin asks for, and what it makes of the answers. How the requests look in
 * bytes is the business of `tests/golden_netlink_test.ts`.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { NetlinkSocket } from "../../../ffi/netlink/socket.ts";
import { linkHeader } from "../../../ffi/rtnl/link_message.ts";
import type { Bytes } from "../../../net/bytes.ts";

/** Source: include/uapi/linux/if_bridge.h `BRIDGE_VLAN_INFO_*`. */
const PVID = 2, UNTAGGED = 4, RANGE_BEGIN = 8, RANGE_END = 16;
/** Source: include/linux/socket.h. */
const AF_BRIDGE = 7;

/** One VLAN of a port, as in netlink. */
interface VlanInfo {
  readonly id: number;
  readonly flags: number;
}

/** The parts of a request that matter here. */
interface LinkRequest {
  readonly header: { readonly family?: number; readonly index?: number };
  // deno-lint-ignore no-explicit-any -- whatever the request has
  readonly attributes?: any;
}

/** What a list is asked for with. */
type DumpArgs = [
  type: unknown,
  body: unknown,
  answers: unknown,
  isMeant: (body: Bytes) => boolean,
];

/** The VLANs of all ports, each with the default one at first. */
export class FakeBridgeVlans {
  readonly #default: readonly VlanInfo[];
  readonly #ports = new Map<number, Map<number, number>>();
  /** The changes, in order, such as `add 100 pvid untagged`. */
  readonly changes: string[] = [];

  /** @param defaults The initial VLANs of a port, such as `1 pvid untagged` */
  constructor(defaults: readonly string[] = ["1 pvid untagged"]) {
    this.#default = defaults.map(parseVlan);
  }

  /** The PVID of new ports; 0 for none. */
  get defaultVlan(): number {
    return this.#default.find(({ flags }) => flags & PVID)?.id ?? 0;
  }

  /** Lists the VLANs of a port, as `100 pvid untagged`. */
  list(index: number): string[] {
    return this.#infosOf(index).map(formatVlan);
  }

  /** Changes a port as another program would. */
  set(index: number, vlans: readonly string[]): void {
    this.#ports.set(index, new Map());
    for (const vlan of vlans) this.#add(index, parseVlan(vlan));
  }

  /** A socket that can do nothing else. */
  get socket(): NetlinkSocket {
    const socket = {
      request: ({ name }: { name: string }, request: LinkRequest): unknown[] =>
        this.change(name, request),
      dump: (...[, , , isMeant]: DumpArgs): unknown[] => this.dump(isMeant),
    };
    return socket as unknown as NetlinkSocket;
  }

  /** Handles a request to change a port. */
  change(name: string, { header, attributes }: LinkRequest): unknown[] {
    assertEquals(header.family, AF_BRIDGE);
    const index = header.index ?? 0;
    for (const vlan of expand(attributes.vlans)) {
      if (name === "RTM_SETLINK") {
        this.changes.push(`add ${formatVlan(vlan)}`);
        this.#add(index, vlan);
      } else {
        assertEquals(name, "RTM_DELLINK");
        this.changes.push(`del ${vlan.id}`);
        this.#portOf(index).delete(vlan.id);
      }
    }
    return [];
  }

  /** Replies to a request to list the ports. */
  dump(isMeant: DumpArgs[3]): unknown[] {
    return Array.from({ length: 64 }, (_, at) => at + 1)
      .filter((index) => isMeant(linkHeader.encode({ index })))
      .flatMap((index) => [
        { header: { index }, attributes: { vlans: this.#infosOf(index) } },
        // For the bridge itself, or a link without VLANs.
        { header: { index }, attributes: {} },
      ]);
  }

  #portOf(index: number): Map<number, number> {
    const port = this.#ports.get(index) ??
      new Map(this.#default.map(({ id, flags }) => [id, flags]));
    this.#ports.set(index, port);
    return port;
  }

  #infosOf(index: number): VlanInfo[] {
    return [...this.#portOf(index)].map(([id, flags]) => ({ id, flags }))
      .sort((left, right) => left.id - right.id);
  }

  /** A port has one PVID: a new one takes the place of the old. */
  #add(index: number, { id, flags }: VlanInfo): void {
    const port = this.#portOf(index);
    if (flags & PVID) {
      for (const [other, old] of port) port.set(other, old & ~PVID);
    }
    port.set(id, flags);
  }
}

/** Puts a table of VLANs before all netlink sockets, until it is disposed of. */
export class BridgeVlansInstead implements Disposable {
  readonly table: FakeBridgeVlans;
  readonly #filtering = new Set<string | number>();
  readonly #stack = new DisposableStack();

  /** Starts to answer. */
  constructor(table: FakeBridgeVlans = new FakeBridgeVlans()) {
    this.table = table;
    const { request, get, dump } = NetlinkSocket.prototype;
    const answer = this.#answer.bind(this);
    const describe = this.#withFiltering.bind(this);
    const methods = {
      request(
        this: NetlinkSocket,
        type: { name: string },
        body: LinkRequest,
        answers: unknown,
      ): unknown[] {
        const ask = (own: unknown): unknown[] =>
          request.call(this, type as never, own as never, answers as never);
        return answer(type.name, body, ask);
      },
      get(
        this: NetlinkSocket,
        type: { name: string },
        body: LinkRequest,
        answers: unknown,
      ): unknown {
        const args = [type as never, body as never, answers as never] as const;
        return describe(get.call(this, ...args) as LinkRequest);
      },
      dump(
        this: NetlinkSocket,
        type: { name: string },
        body: LinkRequest,
        answers: unknown,
        isMeant: DumpArgs[3],
      ): unknown[] {
        const isOfPorts = body.header.family === AF_BRIDGE &&
          type.name === "RTM_GETLINK";
        if (isOfPorts) return table.dump(isMeant);
        const args = [type as never, body as never, answers as never] as const;
        return dump.call(this, ...args, isMeant);
      },
    };
    Object.assign(NetlinkSocket.prototype, methods);
    this.#stack.defer(() => {
      Object.assign(NetlinkSocket.prototype, { request, get, dump });
    });
  }

  #answer(
    name: string,
    body: LinkRequest,
    ask: (body: unknown) => unknown[],
  ): unknown[] {
    const { header = {}, attributes } = body;
    if (header.family === AF_BRIDGE && /LINK$/.test(name)) {
      return this.table.change(name, body);
    }
    if (attributes?.linkInfo?.data?.vlanFiltering !== true) {
      return ask(body);
    }
    this.#filtering.add(attributes.name ?? header.index);
    const linkInfo = { kind: attributes.linkInfo.kind, data: {} };
    // The request to turn it on has no other attribute.
    if (attributes.name === undefined) return [];
    return ask({ ...body, attributes: { ...attributes, linkInfo } });
  }

  /** Adds to the kernel's description of a bridge. */
  #withFiltering(answer: LinkRequest): LinkRequest {
    const { header, attributes } = answer;
    const isOn = this.#filtering.has(header?.index ?? 0) ||
      this.#filtering.has(attributes?.name);
    if (!isOn) return answer;
    const { linkInfo } = attributes;
    const { defaultVlan } = this.table;
    const data = { ...linkInfo.data, vlanFiltering: true, defaultVlan };
    return {
      header,
      attributes: { ...attributes, linkInfo: { ...linkInfo, data } },
    };
  }

  /** Restores the kernel's replies. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** Lists the VLANs in a request, one by one. */
function expand(infos: readonly VlanInfo[]): VlanInfo[] {
  const [first, last] = infos;
  assert(first !== undefined, "no VLAN is named");
  if (last === undefined) return [first];
  assertEquals(first.flags & RANGE_BEGIN, RANGE_BEGIN);
  assertEquals(last.flags & RANGE_END, RANGE_END);
  const flags = first.flags & ~RANGE_BEGIN;
  return Array.from({ length: last.id - first.id + 1 }, (_, at) => ({
    id: first.id + at,
    flags,
  }));
}

function formatVlan({ id, flags }: VlanInfo): string {
  return [id, flags & PVID && "pvid", flags & UNTAGGED && "untagged"]
    .filter(Boolean).join(" ");
}

function parseVlan(text: string): VlanInfo {
  const [id, ...words] = text.split(" ");
  const flags = (words.includes("pvid") ? PVID : 0) |
    (words.includes("untagged") ? UNTAGGED : 0);
  return { id: Number(id), flags };
}
