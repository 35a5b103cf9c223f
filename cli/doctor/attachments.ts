/**
 * The attachments in the cache, and what the kernel has of them.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { join } from "@std/path/posix";
import { ifPossible, readTextFile } from "../../base/files/io.ts";
import { FORWARDING } from "../../plugins/parts/address/ip_forward.ts";
import { findReported } from "./network_addresses.ts";
import { listNotForwarded } from "./sysctls.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { listLive, nameAttachment } from "../node/live.ts";
import {
  adviseRepair,
  findDifferences,
  listChecked,
} from "../node/differences.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listUplinks } from "../node/routers.ts";

/** Finds cache files that cannot be decoded. */
function findBroken(node: NodeReader): Findings {
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
          "DEL runs without the configuration of ADD, and might leave something behind",
          { command: shell`rm ${path}` },
        ),
      ];
    }
    const info = ifPossible(() => Deno.statSync(path));
    if (info === undefined || isOldFormat(path)) return [];
    const { size } = info;
    if (size === 0 && isYoung(info)) return [];
    const fix = {
      did: `removed the empty file "${path}"`,
      run: (): void => {
        const now = ifPossible(() => Deno.statSync(path));
        if (now?.size === 0 && !isYoung(now)) Deno.removeSync(path);
      },
    };
    return [
      warning(
        `"${path}" is ${
          size === 0 ? "empty" : "not readable as an attachment"
        }`,
        size === 0
          ? "it is treated as missing"
          : "DEL runs without the configuration of ADD, and might leave something behind",
        { command: shell`rm ${path}`, ...size === 0 && { fix } },
      ),
    ];
  });
}

/** For how long a file counts as being written, in ms. */
const YOUNG_MS = 60_000;

/** Reports whether a runtime might still be writing a file: libcni truncates it first. */
function isYoung({ mtime }: Deno.FileInfo): boolean {
  return mtime !== null && Date.now() - mtime.getTime() < YOUNG_MS;
}

/** Reports whether a file has only a result, as libcni before 0.8 cached it. */
function isOldFormat(path: string): boolean {
  const document = ifPossible(() => JSON.parse(readTextFile(path)));
  return typeof document === "object" && document !== null &&
    document.kind === undefined &&
    (document.cniVersion !== undefined || document.ips !== undefined);
}

/** Runs CHECK for each attachment, except of plugins that cannot be started. */
async function findChanged(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  // Reported once, by ip-forward.
  const offKeys = [...listNotForwarded(node).keys()]
    .map((family) => FORWARDING[family]);
  const isReported = await findReported(node);
  for (const attachment of listChecked(node)) {
    const subject = nameAttachment(attachment);
    const differences = (await findDifferences(node, attachment))
      .filter(({ expected }) =>
        expected?.kind !== "sysctl" || !offKeys.includes(expected.key)
      ).filter((difference) => !isReported(attachment, difference));
    for (const difference of differences) {
      const { plugin, msg } = difference;
      findings.push(error(
        `${subject} on "${attachment.network}": ${plugin}: ${msg}`,
        "the container's network no longer works as ADD set it up",
        {
          ...await adviseRepair(node, attachment, difference),
          look: node.cni(
            shell`doctor --pod ${attachment.pod ?? attachment.containerId}`,
          ),
          subject,
        },
      ));
    }
  }
  return findings;
}

/** The least MTU with IPv6. Source: RFC 8200, section 5. */
const LEAST_MTU_IPV6 = 1280;

/** Finds links whose MTU is smaller than the packets that senders send. */
function findMtu(node: NodeReader): Findings {
  const [uplink] = listUplinks(node)
    .sort((left, right) => left.mtu - right.mtu);
  return listLive(node).flatMap(({ attachment, link, hostEnd, ...live }) => {
    if (link === undefined) return [];
    const { name, mtu } = link;
    const findings: Finding[] = [];
    const set = shell`nsenter --net=${live.cached.netns} ip link set ${name}`;
    if (hostEnd !== undefined && hostEnd.mtu !== mtu) {
      findings.push(error(
        `the MTU of ${attachment} is ${mtu}, but the MTU of its other end, ` +
          `"${hostEnd.name}", is ${hostEnd.mtu}`,
        `packets larger than ${Math.min(mtu, hostEnd.mtu)} bytes are lost`,
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
        `the MTU of ${attachment} is ${mtu}, but the MTU of the uplink ` +
          `"${uplink.name}" is only ${uplink.mtu}`,
        "large packets are fragmented or lost on their way out",
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
    effect:
      "DEL runs without the configuration of ADD, and might leave something behind.",
    cause: "A power loss, a full disk, or another program's file.",
    howToInspect: "`ls -l` of the file.",
    howToFix: "Remove it; `cni doctor --fix` removes empty files.",
    run: findBroken,
  },
  {
    code: "CNI0702",
    name: "attachment-changed",
    finds: "CHECK of an attachment finds a difference",
    effect: "The container's network no longer works as ADD set it up.",
    cause: "Links, routes, rules or leases were changed after ADD.",
    howToInspect: "`cni doctor --pod NAME` shows the path of its packets.",
    howToFix:
      "`cni repair NAME`, with `--sandbox` to repair the container's interface as well; restart the pod if something is still missing.",
    run: findChanged,
  },
  {
    code: "CNI0703",
    name: "mtu",
    finds: "a container's MTU does not match its other end, IPv6 or the uplink",
    effect: "Large packets are lost, or IPv6 addresses disappear.",
    cause:
      "One end was set by hand, or the uplink's MTU is smaller, as with tunnels.",
    howToInspect: "`ip link show`, in the container and on the node.",
    howToFix: "`ip link set LINK mtu N`, and `mtu` in the configuration.",
    run: findMtu,
  },
];
