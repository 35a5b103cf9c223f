/**
 * The attachments in the cache, and what the kernel has of them.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { join } from "@std/path/posix";
import { listDifferences } from "../../cni/call/differences.ts";
import { ifPossible, readTextFile } from "../../base/files/io.ts";
import {
  CheckNotSupportedError,
  type Network,
  parseNetworkConf,
  parseNetworkConfList,
} from "../../libcni/mod.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  isCovered,
  type NodeAttachment,
} from "../attachments/node_attachments.ts";
import { findMissing } from "../plugins/plugin_file.ts";
import { listNotForwarded } from "./sysctls.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { adviseRestart, listLive, nameAttachment } from "./live.ts";
import { ipamTypeOf, type Node, typesOf } from "./node.ts";
import { listHeldLocks } from "./storage.ts";
import { listUplinks } from "./subnets.ts";
import { CONTAINER_STEPS } from "./way/container.ts";
import { HOST_STEPS } from "./way/host.ts";
import { listStarts } from "./way/trip.ts";
import { listEnds, type Made } from "./way/walk.ts";

/** Finds files of the cache that nobody can read. */
function findBroken(node: Node): Findings {
  const directory = join(node.directories.cacheDir, "results");
  const names = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  const known = new Set(node.attachments.map(({ path }) => path));
  return names.filter((one) => !one.isDirectory).flatMap(({ name, isFile }) => {
    const path = join(directory, name);
    // Files that are being replaced have other names, and come and go.
    if (known.has(path) || name.startsWith(".")) return [];
    if (!isFile) {
      return [
        warning(
          `"${path}" is not a file`,
          "DEL runs without the configuration of ADD, and may leave something",
          { command: shell`rm ${path}` },
        ),
      ];
    }
    const size = ifPossible(() => Deno.statSync(path).size);
    if (size === undefined || isOldFormat(path)) return [];
    const fix = {
      did: `removed the empty file "${path}"`,
      run: () => Deno.removeSync(path),
    };
    return [
      warning(
        `"${path}" is ${
          size === 0 ? "empty" : "not readable as an attachment"
        }`,
        size === 0
          ? "it counts as missing, as after a power loss"
          : "DEL runs without the configuration of ADD, and may leave something",
        { command: shell`rm ${path}`, ...size === 0 && { fix } },
      ),
    ];
  });
}

/** Reports whether a file has only a result, as libcni before 0.8 cached it. */
function isOldFormat(path: string): boolean {
  const document = ifPossible(() => JSON.parse(readTextFile(path)));
  return typeof document === "object" && document !== null &&
    document.kind === undefined &&
    (document.cniVersion !== undefined || document.ips !== undefined);
}

/** Runs CHECK for each attachment, except of plugins that cannot be started. */
async function findChanged(node: Node): Promise<Findings> {
  const findings: Finding[] = [];
  const isUsable = await findStartable(node);
  // Reported once, by ip-forward.
  const known = [...listNotForwarded(node).keys()]
    .map((family) => `: IPv${family} forwarding is off`);
  for (const one of listChecked(node)) {
    const subject = nameAttachment(one);
    const differences = (await findDifferences(node, one, isUsable))
      .filter((text) => !known.some((end) => text.endsWith(end)));
    if (differences.length === 0) continue;
    const steps = await listAllEnds(node, one);
    for (const difference of differences) {
      findings.push(error(
        `${subject} on "${one.network}": ${difference}`,
        "the container's network does not work as it was set up",
        { ...findHelp(difference, one, steps), subject },
      ));
    }
  }
  return findings;
}

const DIFFERENCES = new WeakMap<NodeAttachment, Promise<string[]>>();

/** Returns what CHECK of each plugin finds, and remembers it. */
export async function findDifferences(
  node: Node,
  attachment: NodeAttachment,
  isUsable?: (type: string) => boolean,
): Promise<string[]> {
  const usable = isUsable ?? await findStartable(node);
  // CHECK would wait for the lock.
  const isHeld = (await listHeldLocks(node))
    .some(({ network }) => network === attachment.network);
  if (isHeld) return [];
  const found = DIFFERENCES.get(attachment) ??
    check(node, attachment, usable);
  DIFFERENCES.set(attachment, found);
  return await found;
}

/** Lists the steps at which packets of an attachment end, the later ones too. */
async function listAllEnds(
  node: Node,
  attachment: NodeAttachment,
): Promise<readonly Made[]> {
  const ends: Made[] = [];
  for (const start of listStarts(attachment.netns, [attachment])) {
    ends.push(
      ...await listEnds(node, start, MADE_STEPS, { goesOn: true })
        .catch(() => []),
    );
  }
  return ends;
}

/**
 * Returns what fixes a difference: the command of the step that is about the
 * same thing, or another ADD. Other steps may end for reasons of their own, such
 * as a node without a default route.
 */
function findHelp(
  difference: string,
  attachment: NodeAttachment,
  steps: readonly Made[],
): Pick<Finding, "command" | "advice" | "look"> {
  const look = shell`cni doctor --pod ${
    attachment.pod ?? attachment.containerId
  }`;
  for (const [pattern, write] of OWN_FIXES) {
    const found = pattern.exec(difference);
    if (found !== null) return { command: write(found[1] ?? ""), look };
  }
  const wanted = fixOf(difference);
  const command = wanted && steps.map(({ command = "" }) => command)
    .find((command) => `${command} `.includes(` ${wanted} `));
  return command === undefined
    ? { ...adviseRestart(attachment), look }
    : { command, look };
}

/** Writes the part of a command that ends a difference; undefined if none does. */
function fixOf(difference: string): string | undefined {
  for (const [pattern, write] of FIXES) {
    const found = pattern.exec(difference);
    if (found !== null) return write(...found.slice(1));
  }
  return undefined;
}

/** What CHECK finds of a link on the host, and the whole command that ends it. */
const OWN_FIXES: readonly [pattern: RegExp, write: (link: string) => string][] =
  [
    [
      /: route_localnet of "([^"]+)" is off$/,
      (link) => shell`echo 1 > /proc/sys/net/ipv4/conf/${link}/route_localnet`,
    ],
    [
      /: "([^"]+)" has isolation on$/,
      (link) => shell`bridge link set dev ${link} isolated off`,
    ],
  ];

/** What CHECK finds, and what ends it. */
const FIXES: readonly [
  pattern: RegExp,
  write: (...names: readonly string[]) => string,
][] = [
  [/: Interface "([^"]+)" is down$/, (link) => `link set ${link} up`],
  [
    /: Interface "([^"]+)" lacks address (\S+)$/,
    (link, address) => `address add ${address} dev ${link}`,
  ],
  [
    /: Interface "([^"]+)" lacks route (\S+)( via \S+)?$/,
    (link, to = "", via = "") =>
      `route add ${
        to.replace(/^(0\.0\.0\.0|::)\/0$/, "default")
          .replace(/(?<=\.\d+)\/32$|\/128$/, "")
      }${via} dev ${link}`,
  ],
  [
    /: "([^"]+)" is not a port of "([^"]+)"$/,
    (link, bridge) => `link set ${link} master ${bridge}`,
  ],
  [
    /: "([^"]+)" lacks VLAN (\d+)$/,
    (link, vlan) => `vlan add dev ${link} vid ${vlan} pvid untagged`,
  ],
];

/** The steps by what ADD made; others depend on the rest of the node. */
const MADE_STEPS = [
  ...CONTAINER_STEPS,
  ...HOST_STEPS.filter(({ name }) => ["router", "return-route"].includes(name)),
];

/**
 * Returns a test for types of plugins whose CHECK looks at the container. Other
 * checks report the rest: files that do not work, and missing plugins that a
 * network of the node needs.
 */
async function findStartable(node: Node): Promise<(type: string) => boolean> {
  const works = await node.findUsable();
  const { pluginDirs } = node.directories;
  const reported = node.networks.flatMap(typesOf);
  return (type) =>
    findMissing(type, pluginDirs) === undefined
      ? works(type)
      : !reported.includes(type);
}

/** Lists the attachments that CHECK applies to. multus checks its own. */
export function listChecked(node: Node): NodeAttachment[] {
  return node.liveAttachments.filter((one) =>
    one.via === undefined && !isCovered(one, node.attachments)
  );
}

/**
 * Returns what CHECK of each plugin finds.
 *
 * @param isUsable Tells the types of plugins to ask; by default, all
 */
export async function check(
  { runtime, signal }: Node,
  attachment: NodeAttachment,
  isUsable: (type: string) => boolean = () => true,
): Promise<string[]> {
  const { network, config } = attachment;
  const list = ifPossible(() => parseCached(config));
  if (list === undefined) return [];
  const { containerId, ifName, netns, cniArgs, capabilityArgs } = attachment;
  if (!canOpen(netns)) return [];
  const conf = { containerId, ifName, netns, args: cniArgs, capabilityArgs };
  const found: string[] = [];
  for (const plugin of list.plugins) {
    if (![plugin.type, ipamTypeOf(plugin) ?? plugin.type].every(isUsable)) {
      continue;
    }
    try {
      const alone = { ...list, name: network, plugins: [plugin] };
      await runtime.checkNetworkList(alone, conf, { signal });
    } catch (error) {
      if (error instanceof CheckNotSupportedError) return [];
      if (signal.aborted) throw error;
      found.push(
        ...listDifferences(error).map((text) => `${plugin.type}: ${text}`),
      );
    }
  }
  return found;
}

/**
 * Reports whether a namespace still exists.
 *
 * @throws {SyscallError} EPERM, because that is not a difference
 */
function canOpen(path: string): boolean {
  try {
    using _sandbox = Rtnl.open(path);
    return true;
  } catch (error) {
    if (isMissingNetns(error)) return false;
    throw error;
  }
}

/** Parses the configuration with which an attachment was made. */
function parseCached(
  bytes: Uint8Array,
): Network & { readonly disableCheck?: boolean } {
  const list = parseNetworkConfList(bytes);
  if (list.plugins.length > 0) return list;
  const { name, cniVersion, plugin } = parseNetworkConf(bytes);
  return { name, cniVersion, plugins: [plugin], bytes };
}

/** The least MTU with IPv6. Source: RFC 8200, section 5. */
const LEAST_MTU_IPV6 = 1280;

/** Finds links that drop packets which others send. */
function findMtu(node: Node): Findings {
  const [uplink] = listUplinks(node)
    .sort((left, right) => left.mtu - right.mtu);
  return listLive(node).flatMap(({ attachment, link, hostEnd, ...live }) => {
    if (link === undefined) return [];
    const { name, mtu } = link;
    const findings: Finding[] = [];
    const set = shell`nsenter --net=${live.cached.netns} ip link set ${name}`;
    if (hostEnd !== undefined && hostEnd.mtu !== mtu) {
      findings.push(error(
        `the MTU of ${attachment} is ${mtu}, and that of "${hostEnd.name}", ` +
          `its other end, ${hostEnd.mtu}`,
        `packets of more than ${Math.min(mtu, hostEnd.mtu)} bytes are lost`,
        { command: `${set} mtu ${hostEnd.mtu}` },
      ));
    }
    const hasIpv6 = live.addresses.some(({ family }) => family === 6);
    if (hasIpv6 && mtu < LEAST_MTU_IPV6) {
      findings.push(error(
        `the MTU of ${attachment} is ${mtu}, and IPv6 needs ${LEAST_MTU_IPV6}`,
        "the kernel removes its IPv6 addresses",
        { command: `${set} mtu ${uplink?.mtu ?? 1500}` },
      ));
    }
    if (live.isRouted && uplink !== undefined && mtu > uplink.mtu) {
      findings.push(warning(
        `the MTU of ${attachment} is ${mtu}, and that of the uplink ` +
          `"${uplink.name}" only ${uplink.mtu}`,
        "large packets are cut up or lost on their way out",
        {
          command: `${set} mtu ${uplink.mtu}` +
            (hostEnd === undefined
              ? ""
              : shell`; ip link set ${hostEnd.name} mtu ${uplink.mtu}`),
          advice: `and "mtu": ${uplink.mtu} in "${live.cached.network}"`,
        },
      ));
    }
    return findings;
  });
}

/** Checks of attachments. */
export const ATTACHMENT_CHECKS: readonly Check[] = [
  {
    code: "CNI0701",
    name: "cache-broken",
    finds: "a file of the attachment cache cannot be read",
    page: {
      effect:
        "DEL runs without the configuration of ADD, and might leave something behind.",
      cause: "A power loss, a full disk, or a file of another program.",
      look: "`ls -l` of the file.",
      fix: "Remove it; `cni doctor --fix` removes empty files.",
    },
    run: findBroken,
  },
  {
    code: "CNI0702",
    name: "attachment-changed",
    finds: "CHECK of an attachment finds a difference",
    page: {
      effect: "The container's network does not work as it was set up.",
      cause: "Links, routes, rules or leases were changed after ADD.",
      look: "`cni doctor --pod NAME` shows the path of its packets.",
      fix:
        "Run the command of the finding, or restart the pod: only ADD restores flushed rules.",
    },
    run: findChanged,
  },
  {
    code: "CNI0703",
    name: "mtu",
    finds: "a container's MTU does not match its other end, IPv6 or the uplink",
    page: {
      effect: "Large packets are lost, or IPv6 addresses disappear.",
      cause:
        "One end was set by hand, or the uplink's is smaller, as with tunnels.",
      look: "`ip link show`, in the container and on the node.",
      fix: "`ip link set LINK mtu N`, and `mtu` in the configuration.",
    },
    run: findMtu,
  },
];
