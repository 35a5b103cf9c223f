/**
 * The network namespaces of attachments.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible, isTaken } from "../../base/files/io.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import { nameAttachment } from "../node/live.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { readProcesses } from "../../plugins/parts/evidence/processes.ts";
import { readOrphans } from "./orphans.ts";

/** Finds files of namespaces that are no longer mounted. */
async function findUnmounted(node: NodeReader): Promise<Findings> {
  const unmounted = node.attachments.filter(({ isLive, netns, via }) =>
    isLive === false && via === undefined &&
    isTaken(netns)
  );
  if (unmounted.length === 0) return [];
  const { namespaces } = await readProcesses();
  const orphans = await readOrphans(node);
  return unmounted.map((one) => {
    const { netns, network, containerId, ifName, path } = one;
    const isGone = orphans.some(({ kind, where }) =>
      kind === "attachment" && where === path
    );
    const namespace = findNamespace(one, namespaces.values());
    const mount = (from: string): string =>
      shell`mount --bind ${from} ${netns}`;
    const help = namespace !== undefined
      ? { command: mount(namespace) }
      : isGone
      ? {
        command: node.cni(
          shell`del ${network} ${netns} --container-id ${containerId} ` +
            shell`--ifname ${ifName}`,
        ),
      }
      : {
        advice: "mount the namespace of the container's process PID again: " +
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

/** Finds the namespace that has an attachment's interface; returns its path. */
function findNamespace(
  attachment: NodeAttachment,
  paths: Iterable<string>,
): string | undefined {
  const { ifName } = attachment;
  const { ips = [], interfaces = [] } = resultOf(attachment) ?? {};
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
        );
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
      "`mount --bind /proc/PID/ns/net PATH` with its process, or `cni del` if the container was deleted.",
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
