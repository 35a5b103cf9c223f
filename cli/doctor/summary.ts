/**
 * The node in a few lines, as `cni doctor` shows it above its findings.
 *
 * @module
 */

import { listChecked } from "../node/differences.ts";
import { findDefault } from "./configurations.ts";
import { listed } from "./finding.ts";
import { summarizeKernel } from "./kernel.ts";
import { listRuntimes } from "./runtimes.ts";
import { describeNodeDaemon } from "../node/node_daemon.ts";
import { isLoopbackOnly } from "../node/node_attachments.ts";
import { isTool } from "../node/plugin_file.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { isBuiltByGo } from "../node/elf_file.ts";
import { countPools, findPoolProblem } from "../node/pools.ts";
import { listUplinks } from "../node/routers.ts";
import { NetNs } from "../../ffi/netns.ts";
import { listLegacyTables } from "../probe/legacy_rules.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { ifPossible } from "../../base/files/io.ts";

/** A line of the summary. */
export interface Line {
  readonly label: string;
  readonly text: string;
}

/** Summarizes a node. Leaves out what cannot be read. */
export async function summarize(node: NodeReader): Promise<Line[]> {
  const plugins = await summarizePlugins(node).catch(() => "unknown");
  const daemon = await node.daemonAt(node.daemonSocket)
    .then(describeNodeDaemon, () => "unknown");
  const lines: [label: string, text: () => string][] = [
    ["Kernel", describeKernel],
    ["Runtime", () => describeRuntimes(node)],
    ["Plugins", () => plugins],
    ["Daemon", () => daemon],
    ["Networks", () => describeNetworks(node)],
    ["Attachments", () => describeAttachments(node)],
    ["Addresses", () => describePools(node)],
    ["Rules", () => describeRules(node)],
    ["Uplink", () => describeUplink(node)],
  ];
  return lines.map(([label, text]) => ({
    label,
    text: ifPossible(text) ?? "unknown",
  }));
}

function describeKernel(): string {
  const { release, lacks } = summarizeKernel();
  const without = lacks.length === 0 ? "" : `; without ${lacks.join(", ")}`;
  return `Linux ${release} ${Deno.build.arch}${without}`;
}

function describeRuntimes(node: NodeReader): string {
  const names = listRuntimes(node).map(({ name, pid }) => `${name} (${pid})`);
  return names.length === 0 ? "none runs" : names.join(", ");
}

async function summarizePlugins(node: NodeReader): Promise<string> {
  const files = (await node.plugins())
    .filter((file) => file.shadowedBy === undefined && !isTool(file));
  const ours = files.filter(({ origin }) => origin !== "other").length;
  const go =
    files.filter(({ origin, path }) => origin === "other" && isBuiltByGo(path))
      .length;
  const others = files.length - ours - go;
  const parts = [
    `${files.length} in ${
      node.directories.pluginDirs.join(":")
    }: ${ours} of this project`,
    ...go === 0 ? [] : [`${go} built by Go`],
    ...others === 0 ? [] : [`${others} of other projects`],
  ];
  return parts.join(", ");
}

function describeNetworks(node: NodeReader): string {
  const first = findDefault(node);
  if (first === undefined) return `none in ${node.directories.confDir}`;
  const { name, file, plugins, capabilities } = first;
  const others = node.networks.slice(1).map(({ name }) => name);
  const able = capabilities.length === 0
    ? ""
    : `, declares ${capabilities.join(", ")}`;
  return `${name} is the default (${file}: ${plugins.join(", ")}${able})` +
    (others.length === 0 ? "" : `; also ${listed(others)}`);
}

function describeAttachments(node: NodeReader): string {
  const live = listChecked(node).filter((one) => !isLoopbackOnly(one));
  const networks = new Set(live.map(({ network }) => network));
  const gone =
    node.attachments.filter((one) =>
      one.isLive === false && !isLoopbackOnly(one)
    ).length;
  return (live.length === 0
    ? `none in ${node.directories.cacheDir}`
    : `${live.length} on ${networks.size} network${
      networks.size === 1 ? "" : "s"
    }`) +
    (gone === 0 ? "" : `; ${gone} of deleted containers`);
}

function describePools(node: NodeReader): string {
  const pools = countPools(node).map(({ network, used, all, subnets }) =>
    `${network} ${used} of ${formatSize(all)} (${subnets.join(", ")})`
  );
  const invalid = node.networks
    .filter((network) => findPoolProblem(network) !== null)
    .map(({ name }) => `${name} unknown: its configuration is invalid`);
  return listed([...invalid, ...pools]) ||
    'not counted: no network has "ipam" of type host-local';
}

/** Formats a number of addresses: IPv6 networks have too many for a decimal number. */
function formatSize(all: bigint): string {
  return all < 1_000_000n
    ? `${all}`
    : `2^${Math.round(Math.log2(Number(all)))}`;
}

/** Reports whether iptables or nftables has nat rules. */
function describeRules({ hostNetns }: NodeReader): string {
  using netns = NetNs.open(hostNetns);
  const legacy = ([4, 6] as const)
    .filter((family) => listLegacyTables(netns, family).includes("nat"))
    .map((family) => family === 4 ? "iptables-legacy" : "ip6tables-legacy");
  using nftables = openNftables(hostNetns);
  const tables = nftables === undefined
    ? []
    : nftables.listHookedChains().filter(({ type }) => type === "nat")
      .map(({ table }) => `${table.family} ${table.name}`);
  const owners = [
    ...new Set(tables.map((table) => `nftables ${table}`)),
    ...legacy,
  ];
  return owners.length === 0 ? "no nat tables" : `nat in ${listed(owners, 6)}`;
}

function describeUplink(node: NodeReader): string {
  return listUplinks(node).map(({ name, mtu }) => `${name}, MTU ${mtu}`)
    .join("; ") || "no default route";
}
