/**
 * What a node has, in lines, as programs other than plugins see it.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import { snapshotWithNeighbors } from "../ip_json.ts";
import type { Place } from "./place.ts";

/** The state of a namespace or a node: lines, sorted. */
export type State = readonly string[];

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
type Printed = any;

/** Sysctls that plugins may change, and the directories of others, below `net`. */
const SYSCTLS = ["ipv4/ip_forward", "core/somaxconn"];
const SYSCTL_DIRECTORIES = [
  "bridge",
  ...["ipv4", "ipv6"].flatMap((family) =>
    ["all", "default", "lo"].map((name) => `${family}/conf/${name}`)
  ),
];

/** Takes stock of a namespace. */
export function stateOf(netns: NetNs): State {
  const { links, routes, rules, neighbors }: Printed = snapshotWithNeighbors(
    netns,
  );
  return [
    ...links.map(describeLink),
    ...links.flatMap(({ ifname, addr_info }: Printed) =>
      addr_info.filter(({ scope }: Printed) => scope !== "link")
        .map(({ local, prefixlen }: Printed) =>
          `address ${local}/${prefixlen} dev ${ifname}`
        )
    ),
    ...routes.filter(({ dst }: Printed) => !/^(fe80|ff00|multicast)/.test(dst))
      .map(describeRoute),
    ...rules.map((rule: Printed) => `rule ${describe(rule)}`),
    ...neighbors.map((one: Printed) => `neighbor ${describe(one)}`),
    ...listSysctls(netns),
    ...listOthers(netns),
  ].sort();
}

/** Takes stock of a node: its namespace and its files. */
export function stateOfNode(place: Place): State {
  const files = place.files().filter((path) => !isKept(path))
    .map((path) => `file ${path}`);
  return [...stateOf(place.host), ...files, ...place.more?.() ?? []].sort();
}

/** Reports whether a file is what plugins keep between calls: locks and logs. */
function isKept(path: string): boolean {
  return /lock$|\/locks\/|last_reserved_ip|\.log$|\/calls\/|\/conform-ipam$|\/evil$/
    .test(path);
}

/** Says what has come and what has gone, a line each. */
export function differences(before: State, after: State): string[] {
  const count = Map.groupBy(before, (line) => line);
  const come = after.filter((line) => {
    const left = count.get(line)?.pop();
    return left === undefined;
  });
  const gone = [...count].flatMap(([line, left]) => left.map(() => line));
  return [
    ...gone.map((line) => `gone: ${line}`),
    ...come.map((line) => `left: ${line}`),
  ];
}

function describeLink(link: Printed): string {
  const { ifname, mtu, master, address, flags, linkinfo, ifalias } = link;
  const kind = linkinfo?.info_kind ?? "physical";
  const isUp = flags.includes("UP") ? "up" : "down";
  return [
    `link ${ifname} ${kind} ${isUp} mtu ${mtu}`,
    // The kernel gives an ifb another one each time.
    ...address === undefined || kind === "ifb" ? [] : [`mac ${address}`],
    ...master === undefined ? [] : [`master ${master}`],
    ...link.promiscuity > 0 ? [`promiscuity ${link.promiscuity}`] : [],
    ...flags.includes("ALLMULTI") ? ["allmulti"] : [],
    ...ifalias === undefined ? [] : [`alias ${ifalias}`],
  ].join(" ");
}

function describeRoute(route: Printed): string {
  const { type, dst, gateway, dev, table, metric, prefsrc } = route;
  return [
    `route ${type ?? "unicast"} ${dst}`,
    ...gateway === undefined ? [] : [`via ${gateway}`],
    ...dev === undefined ? [] : [`dev ${dev}`],
    ...table === undefined ? [] : [`table ${table}`],
    ...metric === undefined ? [] : [`metric ${metric}`],
    ...prefsrc === undefined ? [] : [`src ${prefsrc}`],
  ].join(" ");
}

function describe(values: Readonly<Record<string, unknown>>): string {
  return Object.entries(values).map(([key, value]) =>
    `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`
  ).join(" ");
}

function listOthers(netns: NetNs): string[] {
  const lines = [
    ...listQdiscs(netns),
    ...listNftables(netns),
    ...["ip", "ip6"].flatMap((family) => listLegacyRules(netns, family)),
  ].filter((line) => !/^nft [{}]?$|^ip6?tables [^-]|^qdisc .* 0: /.test(line));
  const links = lines.flatMap((line) =>
    line.startsWith("qdisc ") ? / dev (\S+)/.exec(line)?.slice(1) ?? [] : []
  );
  const more = [...new Set(links)].flatMap((dev) => [
    ...list(netns, `class ${dev}`, "tc", "class", "show", "dev", dev),
    ...["root", "ingress"].flatMap((parent) =>
      list(netns, `filter ${dev}`, "tc", "filter", "show", "dev", dev, parent)
    ),
  ]).filter((line) => !/ filter .*chain 0 *$/.test(line));
  return [...lines, ...more];
}

/** Lists the qdiscs, unless all are the kernel's own, which have no handle. */
function listQdiscs(netns: NetNs): string[] {
  const qdiscs = ifPossible(() => {
    using rtnl = Rtnl.open(netns.path);
    return new TrafficControl(rtnl.socket).qdisc.list();
  }) ?? [];
  const areOwn = qdiscs.every(({ handle }) => handle === 0);
  if (qdiscs.length > 0 && areOwn) return [];
  return list(netns, "qdisc", "tc", "qdisc", "show");
}

/** What a new namespace has. Source: `nf_tables_init_net()`. */
const FIRST_GENERATION = 1;

/** Lists the ruleset of nftables, unless the namespace has never had one. */
function listNftables(netns: NetNs): string[] {
  const generation = ifPossible(() => {
    using nftables = Nftables.open(netns.path);
    return nftables.generation();
  });
  if (generation === FIRST_GENERATION) return [];
  return list(netns, "nft", "nft", "list", "ruleset");
}

/** Lists the rules of legacy tables, if the namespace has any. */
function listLegacyRules(netns: NetNs, family: string): string[] {
  const path = `/proc/thread-self/net/${family}_tables_names`;
  const names = inNetns(
    netns,
    () => ifPossible(() => Deno.readTextFileSync(path)),
  );
  if (!names) return [];
  return list(netns, `${family}tables`, `${family}tables-legacy-save`);
}

function listSysctls(netns: NetNs): string[] {
  return inNetns(netns, () => {
    const listed = SYSCTL_DIRECTORIES.flatMap((directory) =>
      ifPossible(() => [...Deno.readDirSync(`/proc/sys/net/${directory}`)])
        ?.map(({ name }) => `${directory}/${name}`) ?? []
    );
    return [...SYSCTLS, ...listed]
      .filter((key) => !key.endsWith("stable_secret"))
      .flatMap((key) => {
        const value = ifPossible(() => readSysctl(`net/${key}`));
        return value ? [`sysctl ${key}:${value.replace(/\s+/g, " ")}`] : [];
      });
  });
}

/** Lists what a program prints, if the node has it; each line begins with `head`. */
function list(
  netns: NetNs,
  head: string,
  program: string,
  ...args: string[]
): string[] {
  const printed = inNetns(
    netns,
    () =>
      ifPossible(() =>
        new Deno.Command(program, { args, stderr: "null" }).outputSync()
      ),
  );
  return new TextDecoder().decode(printed?.stdout).split("\n")
    .map((line) =>
      line.trim().replace(/\s+/g, " ")
        .replace(/ packets \d+ bytes \d+/, "")
        .replace(/ ?index \d+ ref \d+ bind \d+/, "")
    )
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => `${head} ${line}`);
}
