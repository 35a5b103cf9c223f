/**
 * Reads the live state of a node's networks from the kernel.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { findFileId } from "../../base/files/same_file.ts";
import { isErrno } from "../../ffi/errno.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { filtersVlans } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { RuleRequests } from "../../ffi/rtnl/rule.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { pathOfName } from "../node/named_netns.ts";
import {
  formatAddresses,
  Host,
  INSIDE,
  readInterfaces,
  ROUTED,
  viewGone,
} from "./interfaces.ts";
import {
  type GroupView,
  type NodeView,
  type PersistentView,
  type SandboxView,
  titleOf,
  type UplinkView,
} from "./model.ts";

/** A namespace to show, and its attachments. */
export interface Sandbox {
  readonly netns: string;
  readonly attachments: readonly NodeAttachment[];
}

/** Groups attachments by namespace; adds namespaces without any. */
export function listSandboxes(
  attachments: readonly NodeAttachment[],
  paths: readonly string[] = [],
): Sandbox[] {
  const found = new Map<string, Sandbox>();
  const host = findFileId(OWN_NETNS);
  for (const attachment of attachments) {
    const { netns, containerId } = attachment;
    const id = findFileId(netns) ?? (netns || containerId);
    const { attachments = [] } = found.get(id) ?? {};
    found.set(id, { netns, attachments: [...attachments, attachment] });
  }
  for (const netns of paths) {
    const id = findFileId(netns) ?? netns;
    if (!found.has(id) && id !== host) {
      found.set(id, { netns, attachments: [] });
    }
  }
  return [...found.values()];
}

/**
 * Reads the node's state.
 *
 * @param hostNetns Path of the node's own namespace
 * @param staying Persistent addresses of pods that do not exist
 * @throws {SyscallError} If that cannot be read
 */
export async function readNode(
  sandboxes: readonly Sandbox[],
  hostNetns: string = OWN_NETNS,
  staying: readonly PersistentView[] = [],
): Promise<NodeView> {
  using host = new Host(hostNetns);
  const groups = new Map<string, SandboxView[]>();
  const usedPorts = new Set<string>();
  for (const sandbox of sandboxes) {
    for (const [group, view] of await readSandbox(host, sandbox)) {
      groups.set(group, [...groups.get(group) ?? [], view]);
      for (const { hostLink } of view.interfaces) {
        if (hostLink !== null) usedPorts.add(hostLink);
      }
    }
  }
  const views = [...groups].map(([name, sandboxes]) =>
    viewGroup(host, { name, sandboxes, usedPorts })
  );
  return {
    node: Deno.hostname(),
    uplinks: listUplinks(host),
    groups: views.sort((left, right) => rank(left) - rank(right)),
    staying,
  };
}

function rank({ kind }: GroupView): number {
  return ["none", "routed"].includes(kind) ? 1 : 0;
}

function viewGroup(
  { links, addresses }: Host,
  { name, sandboxes, usedPorts }: {
    readonly name: string;
    readonly sandboxes: readonly SandboxView[];
    readonly usedPorts: ReadonlySet<string>;
  },
): GroupView {
  const link = [...links.values()].find((one) => one.name === name);
  const kind = name === ROUTED
    ? "routed"
    : name === INSIDE || link === undefined
    ? "none"
    : link.kind || "uplink";
  return {
    name,
    kind,
    isUp: link?.isUp ?? true,
    mtu: link?.mtu ?? null,
    addresses: link === undefined ? [] : formatAddresses(addresses, link),
    hasVlanFiltering: link !== undefined && filtersVlans(link),
    foreignPorts: [...links.values()]
      .filter((port) => link && port.masterIndex === link.index)
      .map((port) => port.name)
      .filter((port) => !usedPorts.has(port)),
    sandboxes: sandboxes.toSorted((left, right) =>
      titleOf(left).localeCompare(titleOf(right), "en", { numeric: true })
    ),
  };
}

function listUplinks({ rtnl, links, addresses }: Host): UplinkView[] {
  const defaults = rtnl.route.list()
    .filter(({ destination }) => destination.prefixLength === 0);
  return [...new Set(defaults.map(({ ifindex }) => ifindex))]
    .flatMap((ifindex) => {
      const link = links.get(ifindex ?? 0);
      if (link === undefined) return [];
      const gateways = defaults.filter((one) => one.ifindex === ifindex)
        .flatMap(({ gateway }) => gateway === undefined ? [] : `${gateway}`);
      return [{
        name: link.name,
        addresses: formatAddresses(addresses, link),
        gateways,
      }];
    });
}

/** Reads a namespace; returns its part of each group. */
async function readSandbox(
  host: Host,
  sandbox: Sandbox,
): Promise<Map<string, SandboxView>> {
  const { attachments, netns } = sandbox;
  const shown = viewSandbox(sandbox);
  const opened = open(netns);
  if (!(opened instanceof Rtnl)) {
    const interfaces = attachments
      .filter(({ via, ifName }, _, all) =>
        via === undefined ||
        !all.some((one) => one.via === undefined && one.ifName === ifName)
      )
      .map((one) => viewGone(one, opened === false));
    return new Map([[INSIDE, { ...shown, exists: opened, interfaces }]]);
  }
  using rtnl = opened;
  const groups = new Map<string, SandboxView>();
  const rules = new RuleRequests(rtnl.socket).list()
    .filter(({ priority }) => ![0, 32766, 32767].includes(priority))
    .map(({ priority, source, table }) =>
      `${priority}: from ${source} lookup ${table}`
    );
  const connected = await readInterfaces(host, rtnl, attachments);
  if (connected.length === 0) {
    return new Map([[INSIDE, { ...shown, rules, exists: true }]]);
  }
  for (const { group, view } of connected) {
    const { interfaces = [] } = groups.get(group) ?? {};
    groups.set(group, {
      ...shown,
      rules: groups.size === 0 || groups.has(group) ? rules : [],
      interfaces: [...interfaces, view],
    });
  }
  return groups;
}

/** Opens a namespace; false if it does not exist, null if it cannot be read. */
function open(netns: string): Rtnl | false | null {
  if (netns === "") return null;
  try {
    return Rtnl.open(netns);
  } catch (error) {
    if (isMissingNetns(error)) return false;
    if (isErrno(error, "EPERM", "EACCES")) return null;
    throw error;
  }
}

function viewSandbox({ netns, attachments }: Sandbox): SandboxView {
  const name = basename(netns);
  const ids = attachments.map(({ containerId }) => containerId);
  const isNamed = name !== "" && netns === pathOfName(name);
  return {
    pod: attachments.find(({ pod }) => pod)?.pod ?? null,
    name: (isNamed ? name : netns) || ids[0] || "",
    netns,
    containerIDs: [...new Set(ids)],
    exists: true,
    isForeign: attachments.length === 0,
    rules: [],
    interfaces: [],
  };
}
