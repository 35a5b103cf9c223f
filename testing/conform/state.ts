/**
 * What a node has, in lines, as other programs than plugins see it.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { snapshot } from "../ip_json.ts";
import type { Place } from "./place.ts";

/** The state of a namespace or a node: lines, sorted. */
export type State = readonly string[];

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
type Printed = any;

/** Lists the rest of what a namespace has, by as few processes as can be. */
const OTHERS = `
echo '# neighbor'; ip neigh show nud permanent
echo '# qdisc'; tc qdisc show
echo '# nft'; nft list ruleset
echo '# sysctl'; cd /proc/sys/net &&
  grep -s . ipv4/ip_forward core/somaxconn bridge/* \
  ipv[46]/conf/all/* ipv[46]/conf/default/* ipv[46]/conf/lo/*
for family in ip ip6; do
  if [ -s /proc/net/\${family}_tables_names ]; then
    echo "# \${family}tables"; \${family}tables-legacy-save
  fi
done
true`;

/** Lists the classes and filters of links, the arguments. */
const TRAFFIC = `
for dev; do
  echo "# class $dev"; tc class show dev "$dev"
  echo "# filter $dev"; tc filter show dev "$dev" root
  tc filter show dev "$dev" ingress
done
true`;

/** Takes stock of a namespace. */
export function stateOf(netns: NetNs): State {
  const { links, routes, rules }: Printed = snapshot(netns);
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
  const lines = list(netns, OTHERS).filter((line) =>
    !/^sysctl .*stable_secret|^nft [{}]?$|^ip6?tables [^-]/.test(line) &&
    !/^qdisc .* 0: /.test(line)
  );
  const links = lines.flatMap((line) =>
    line.startsWith("qdisc ") ? / dev (\S+)/.exec(line)?.slice(1) ?? [] : []
  );
  if (links.length === 0) return lines;
  const more = list(netns, TRAFFIC, ...new Set(links))
    .filter((line) => !/ filter .*chain 0 *$/.test(line));
  return [...lines, ...more];
}

/** Runs a script; each line begins with what the last `# ` before it said. */
function list(netns: NetNs, script: string, ...args: string[]): string[] {
  const { stdout } = inNetns(netns, () =>
    new Deno.Command("sh", {
      args: ["-c", script, "sh", ...args],
      stderr: "null",
    }).outputSync());
  let head = "";
  return new TextDecoder().decode(stdout).split("\n").flatMap((printed) => {
    const line = printed.trim().replace(/\s+/g, " ")
      .replace(/ packets \d+ bytes \d+/, "")
      .replace(/ ?index \d+ ref \d+ bind \d+/, "");
    if (line.startsWith("# ")) head = line.slice(2);
    return line === "" || line.startsWith("#") ? [] : [`${head} ${line}`];
  });
}
