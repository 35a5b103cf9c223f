/**
 * `cni networks NAME`: shows the details of a network.
 *
 * @module
 */

import { findValue } from "../../base/json/json.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import { listCapabilities } from "../../libcni/conf.ts";
import { unfoldChains } from "../node/chain_form.ts";
import { NodeReader, type NodeReaderOptions } from "../node/node_reader.ts";
import { listSubnets, sharedLinkKeyOf, sharedLinkOf } from "../node/routed.ts";
import { countPools, findPoolProblem, listPools } from "../node/pools.ts";
import type { CniCall } from "../flags.ts";
import {
  chooseExitCode,
  type Directories,
  getNetwork,
  getNetworkFile,
  readDirectories,
} from "../node/network.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { describeNodeDaemon } from "../node/node_daemon.ts";
import type { Output } from "../../base/command_line/command.ts";
import { showControls, type Style } from "../../base/command_line/style.ts";
import { formatListing, wrap } from "../../base/command_line/table.ts";
import { type AttachmentRow, chooseColumns, toRow } from "../list/command.ts";
import {
  type AskedDaemon,
  findDaemon,
  listNetworkRows,
  type NetworkRow,
} from "./read_networks.ts";
import { formatTime } from "../../base/time.ts";
import { ipamTypeOf } from "../../cni/config/ipam.ts";

/** The key of plugins on a link of the host. */
const MASTER = "master";

/** A link of the host that a plugin names. */
interface NamedLink {
  /** The key that names it: bridge or master. */
  readonly key: string;
  readonly name: string;
  readonly exists: boolean;
  readonly isUp: boolean;
  /** In bytes; null if it does not exist. */
  readonly mtu: number | null;
  readonly addresses: readonly string[];
}

/** Addresses that share a range set. */
interface Pool {
  readonly subnets: readonly string[];
  /** Never given out; empty if all are. */
  readonly gateways: readonly string[];
  readonly used: number;
  /** Persistent addresses of pods that do not exist. */
  readonly staying: readonly {
    readonly address: string;
    /** The pod, `namespace/name`. */
    readonly pod: string;
    readonly interface: string;
    readonly until: string;
  }[];
  /** Addresses that other machines have. */
  readonly setAside: readonly {
    readonly address: string;
    readonly mac: string;
    readonly until: string;
  }[];
  readonly free: number;
  /** The directory with the leases. */
  readonly leases: string;
}

/** All about a network. */
interface Details {
  readonly name: string;
  readonly file: string;
  /** When the file was changed. */
  readonly changed: string | null;
  readonly cniVersion: string;
  /** The plugins in order, with their IPAM plugins: `bridge (host-local)`. */
  readonly plugins: readonly string[];
  readonly capabilities: readonly string[];
  readonly links: readonly NamedLink[];
  readonly subnets: readonly string[];
  readonly gateways: readonly string[];
  readonly pools: readonly Pool[];
  /** The problem of its ranges, as `cni networks` has it. */
  readonly poolProblem: NetworkRow["poolProblem"];
  /** The state of the daemon's socket, as `cni networks` has it. */
  readonly daemon: NetworkRow["daemon"];
  /** The same, and why. */
  readonly daemonText: string;
  readonly problems: readonly string[];
  /** Null if the cache cannot be read. */
  readonly attachments: readonly AttachmentRow[] | null;
}

/**
 * Describes all of a network.
 *
 * @throws {UnknownNetworkError} If no network has that name
 */
export async function describeNetwork(
  network: string,
  call: CniCall,
  replaced: Pick<NodeReaderOptions, "hostNetns"> = {},
): Promise<Output> {
  const directories = readDirectories(call);
  const { env, signal } = call;
  using node = new NodeReader({ directories, env, signal, ...replaced });
  const details = await readDetails(network, node, directories);
  const { attachments } = details;
  return {
    json: details,
    text: (style) =>
      call.flags.output === "name"
        ? details.name
        : formatDetails(details, call, style),
    note: attachments === null ? "The attachments cannot be read" : undefined,
    exitCode: chooseExitCode(call, details.problems.length > 0),
  };
}

async function readDetails(
  network: string,
  node: NodeReader,
  directories: Directories,
): Promise<Details> {
  const list = getNetwork(directories, network);
  const { name, cniVersion } = list;
  const file = network.includes("/")
    ? network
    : getNetworkFile(directories.confDir, name);
  const confs = unfoldChains(list.plugins);
  const known = { name, path: file, file, list, plugins: confs };
  const sets = listPools({ networks: [known] }).flatMap(({ sets }) => sets);
  const pools = countPools({ networks: [known] })
    .map((
      { subnets, used, all, persistent, setAside, directory },
      index,
    ): Pool => ({
      subnets,
      gateways: sets[index]?.flatMap(({ gateway }) => gateway ?? [])
        .map(String) ?? [],
      used: Number(used),
      staying: persistent.map(({ address, namespace, pod, ifName, until }) => ({
        address,
        pod: `${namespace}/${pod}`,
        interface: ifName,
        until: formatTime(until),
      })),
      setAside: setAside.map(({ until, ...one }) => ({
        ...one,
        until: formatTime(until),
      })),
      free: Number(all - used) - persistent.length - setAside.length,
      leases: directory,
    }));
  const attached = ifPossible(() => node.attachments)
    ?.filter((one) => one.network === name);
  const results = attached?.flatMap((one) => resultOf(one)?.ips ?? []) ?? [];
  const links = confs.flatMap((conf) => findLink(conf, node));
  const daemon = await findDaemon(confs, directories, node.signal);
  const row = listNetworkRows(directories).find((one) => one.file === file);
  const changed = ifPossible(() => Deno.statSync(file))?.mtime;
  return {
    name,
    file,
    changed: changed ? formatTime(changed) : null,
    cniVersion,
    plugins: confs.map((conf) => {
      const ipam = ipamTypeOf(conf.document);
      return ipam === undefined ? conf.type : `${conf.type} (${ipam})`;
    }),
    capabilities: listCapabilities(confs),
    links,
    subnets: unique(confs.flatMap((conf) => listSubnets(conf)).map(String)),
    gateways: unique([
      ...pools.flatMap(({ gateways }) => gateways),
      ...results.flatMap(({ gateway }) => gateway ? [`${gateway}`] : []),
    ]),
    pools,
    poolProblem: findPoolProblem(known),
    daemon: daemon.is,
    daemonText: await explainDaemon(daemon, node),
    problems: [
      ...row?.problems ?? [],
      ...links.filter(({ exists, key }) => !exists && key === "master")
        .map(({ name }) => `the master "${name}" does not exist`),
    ],
    attachments: attached
      ? await Promise.all(attached.map((one) => toRow(one)))
      : null,
  };
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}

/** Finds the host's link that the containers of a plugin share. */
function findLink(conf: PluginConf, node: NodeReader): NamedLink[] {
  const name = sharedLinkOf(conf) ?? findValue(conf.document, MASTER);
  if (typeof name !== "string" || name === "") return [];
  const link = ifPossible(() => node.host.link.find(name));
  const addresses = link === undefined
    ? []
    : node.host.address.list({ ifindex: link.index });
  return [{
    key: sharedLinkKeyOf(conf) ?? MASTER,
    name,
    exists: link !== undefined,
    isUp: link?.isUp ?? false,
    mtu: link?.mtu ?? null,
    addresses: addresses.map(({ address }) => `${address}`)
      .filter((address) => !address.startsWith("fe80:")),
  }];
}

/** Reports whether the daemon runs the network's calls, and why not. */
async function explainDaemon(
  { is, socket = "" }: AskedDaemon,
  node: NodeReader,
): Promise<string> {
  switch (is) {
    case null:
      return "not queried: none of the plugins belongs to this project";
    case "off":
      return 'not used: "daemonSocket" is empty in the configuration';
    case "denied":
      return `unknown: ${socket} cannot be reached; run it as root`;
    case "absent":
      return `not found: nothing listens on ${socket}, so each call runs locally; ` +
        "see cni daemon enable";
    default:
      return `${is}: ${describeNodeDaemon(await node.daemonAt(socket))}`;
  }
}

function formatDetails(details: Details, call: CniCall, style: Style): string {
  const { attachments, poolProblem } = details;
  const facts: (readonly [label: string, text: string])[] = [
    ["Name", details.name],
    ["File", details.file],
    ["Since", details.changed ?? "unknown"],
    ["Version", details.cniVersion || "none, which means 0.1.0"],
    ["Plugins", details.plugins.join(", ")],
    ["Capabilities", details.capabilities.join(", ") || "none"],
    ...details.links.map((link) => [titleOf(link), formatLink(link)] as const),
    ["Subnets", details.subnets.join(", ") || "not in the configuration"],
    ["Gateways", details.gateways.join(", ") || "none"],
    ...details.pools.map((pool) => ["Addresses", formatPool(pool)] as const),
    ...poolProblem === null
      ? []
      : [["Addresses", `invalid: ${poolProblem}`] as const],
    ...details.pools.flatMap(({ staying }) =>
      staying.map((one) => ["Persistent", formatPersistent(one)] as const)
    ),
    ...details.pools.flatMap(({ setAside }) =>
      setAside.map(({ address, mac, until }) =>
        ["Set aside", `${address}, which ${mac} has, until ${until}`] as const
      )
    ),
    ["Daemon", details.daemonText],
    ["Attached", attachments === null ? "unknown" : `${attachments.length}`],
    ...details.problems.map((problem) => ["Problem", problem] as const),
  ];
  const indent = Math.max(...facts.map(([label]) => label.length)) + 2;
  const lines = facts.flatMap(([label, text]) =>
    wrap(showControls(text), (style.width ?? Infinity) - indent)
      .map((line, index) =>
        index === 0
          ? style.bold(label) + " ".repeat(indent - label.length) +
            paint(label, line, style)
          : " ".repeat(indent) + paint(label, line, style)
      )
  );
  if (attachments === null || attachments.length === 0) return lines.join("\n");
  const columns = chooseColumns(call, attachments)
    .filter(({ heading }) => heading !== "NETWORK")
    .map((column) =>
      column.heading === "SINCE" ? { ...column, dropped: 9 } : column
    );
  const table = formatListing(call.flags, columns, attachments, () => "");
  return [...lines, "", table(style)].join("\n");
}

function paint(label: string, line: string, style: Style): string {
  return label === "Problem" ? style.red(line) : line;
}

function titleOf({ key }: NamedLink): string {
  return key === MASTER ? "Master" : "Bridge";
}

function formatLink(link: NamedLink): string {
  const { key, name, exists, isUp, mtu, addresses } = link;
  if (!exists) {
    const when = key === MASTER ? "" : "; the first ADD creates it";
    return `${name}, does not exist${when}`;
  }
  return [name, isUp ? "up" : "down", `mtu ${mtu}`, ...addresses].join(", ");
}

function formatPersistent(
  { address, pod, interface: ifName, until }: Pool["staying"][number],
): string {
  return `${address} for ${pod} ${ifName}, until ${until}`;
}

function formatPool(
  { subnets, used, staying, setAside, free, leases }: Pool,
): string {
  const persistent = staying.length > 0 ? `${staying.length} persistent, ` : "";
  const aside = setAside.length > 0 ? `${setAside.length} set aside, ` : "";
  const left = free < 1e6 ? `${free}` : free.toExponential(0).replace("+", "");
  return `${
    subnets.join(", ")
  }: ${used} used, ${persistent}${aside}${left} free; leases in ${leases}`;
}
