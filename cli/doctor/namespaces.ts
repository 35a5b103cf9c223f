/**
 * The network namespaces of attachments.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible, isTaken } from "../../base/files/io.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import { nameAttachment } from "../node/live.ts";
import {
  isLoopbackOnly,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { readProcesses } from "../../plugins/parts/evidence/processes.ts";
import { findListedEnd } from "../../plugins/parts/link/host_end.ts";
import { readOrphans } from "./orphans.ts";

/** Finds files of namespaces that are no longer mounted. */
async function findUnmounted(node: NodeReader): Promise<Findings> {
  const unmounted = node.attachments.filter((one) =>
    one.isLive === false && one.via === undefined && isTaken(one.netns) &&
    !isLoopbackOnly(one)
  );
  if (unmounted.length === 0) return [];
  const { usable } = await readProcesses();
  const hostId = findFileId(node.hostNetns);
  const paths = [...usable].filter(([id]) => id !== hostId)
    .map(([, path]) => path);
  const orphans = await readOrphans(node);
  return unmounted.map((one) => {
    const { netns, network, containerId, ifName, path } = one;
    const isGone = orphans.some(({ kind, where }) =>
      kind === "attachment" && where === path
    );
    const namespace = isGone ? undefined : findNamespace(node.host, one, paths);
    const mount = (from: string): string =>
      shell`mount --bind ${from} ${netns}`;
    const help = isGone
      ? {
        command: node.cni(
          shell`del ${network} ${netns} --container-id ${containerId} ` +
            shell`--ifname ${ifName}`,
        ),
      }
      : namespace !== undefined
      ? { command: mount(namespace) }
      : {
        advice: 'check with "cat /proc/PID/cgroup" that process PID is the ' +
          "container's, and mount its namespace again: " +
          `${mount("/proc/PID/ns/net")}; if the container was deleted, its ` +
          `runtime or ${node.cni("gc --orphans")} removes the attachment`,
      };
    return warning(
      `"${netns}" of ${nameAttachment(one)} is no longer a network ` +
        "namespace: nothing is mounted there",
      namespace === undefined
        ? "CHECK and DEL cannot enter it"
        : "CHECK and DEL cannot enter it, and the container still runs",
      {
        ...help,
        look: shell`findmnt ${netns}`,
        subject: nameAttachment(one),
      },
    );
  });
}

/**
 * Finds the namespace that has the container's end of an attachment's veth pair; returns
 * its path. Any user can create a namespace that has an interface with the same name, MAC
 * and addresses, but the host's end leads to one namespace only.
 */
function findNamespace(
  host: Rtnl,
  attachment: NodeAttachment,
  paths: readonly string[],
): string | undefined {
  const { ifName } = attachment;
  const result = resultOf(attachment);
  const { ips = [], interfaces = [] } = result ?? {};
  const { mac } =
    interfaces.find(({ name, sandbox }) =>
      sandbox !== undefined && name === ifName
    ) ?? {};
  for (const path of paths) {
    const isOwn = ifPossible(() => {
      using rtnl = Rtnl.openUntrusted(path);
      const link = rtnl.link.find(ifName);
      if (link === undefined || mac === undefined) return false;
      const addresses = rtnl.address.list({ ifindex: link.index });
      return `${link.mac}` === `${mac}` &&
        ips.every((ip) =>
          addresses.some(({ address }) => address.equals(ip.address))
        ) && findListedEnd(host, rtnl, result)?.linkIndex === link.index;
    });
    if (isOwn === true) return path;
  }
  return undefined;
}

/** Finds pods whose processes cannot reach each other at 127.0.0.1. */
function findLoopbackDown({ liveAttachments }: NodeReader): Findings {
  const pods = new Map(
    liveAttachments.filter(({ pod }) => pod !== undefined)
      .map((one) => [one.netns, one]),
  );
  return [...pods].flatMap(([netns, one]) => {
    const isUp = ifPossible(() => {
      using sandbox = Rtnl.open(netns);
      return sandbox.link.find("lo")?.isUp;
    });
    if (isUp !== false) return [];
    return [error(
      `"lo" of ${one.pod} is down`,
      "its containers do not reach each other at 127.0.0.1, and probes fail",
      {
        command: shell`nsenter --net=${netns} ip link set lo up`,
        subject: one.pod,
      },
    )];
  });
}

/** Checks of namespaces. */
export const NAMESPACE_CHECKS: readonly Check[] = [
  {
    code: "CNI0704",
    name: "netns-unmounted",
    finds: "the namespace of an attachment is no longer mounted",
    effect: "CHECK and DEL cannot enter it. A container might still run in it.",
    cause:
      "/run/netns was unmounted, for example by a program that cleans /run.",
    howToInspect: "`findmnt PATH`.",
    howToFix:
      "`mount --bind /proc/PID/ns/net PATH` with a process that `cat /proc/PID/cgroup` shows to be the container's, or `cni del` if the container was deleted.",
    run: findUnmounted,
  },
  {
    code: "CNI0705",
    name: "loopback-down",
    finds: "the loopback interface of a pod is down",
    effect: "Containers of the pod do not reach each other at 127.0.0.1.",
    cause:
      "The plugin loopback failed or was missing, or a program in the pod brought it down.",
    howToInspect: "`nsenter --net=PATH ip link show lo`.",
    howToFix: "`nsenter --net=PATH ip link set lo up`.",
    run: findLoopbackDown,
  },
];
