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
import type { NodeReader } from "../node/node_reader.ts";

/** Finds files of namespaces that are no longer mounted. */
function findUnmounted({ attachments }: NodeReader): Findings {
  return attachments.filter(({ isLive, netns, via }) =>
    isLive === false && via === undefined &&
    isTaken(netns)
  ).map((one) => {
    const { netns, network, containerId, ifName } = one;
    return warning(
      `"${netns}" of ${nameAttachment(one)} is no longer a network ` +
        "namespace: nothing is mounted there",
      "CHECK and DEL cannot enter it; a container might still run in it",
      {
        command:
          shell`cni del ${network} ${netns} --container-id ${containerId} ` +
          shell`--ifname ${ifName}`,
        advice: "if the container still runs as process PID, mount it again " +
          shell`instead: mount --bind /proc/PID/ns/net ${netns}`,
        look: shell`findmnt ${netns}`,
        subject: nameAttachment(one),
      },
    );
  });
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
    look: "`findmnt PATH`.",
    fix:
      "`mount --bind /proc/PID/ns/net PATH` with its process, or `cni del` if the process has exited.",
    run: findUnmounted,
  },
  {
    code: "CNI0705",
    name: "loopback-down",
    finds: "the loopback interface of a pod is down",
    effect: "Containers of the pod do not reach each other at 127.0.0.1.",
    cause:
      "The plugin loopback failed or was missing, or a program in the pod brought it down.",
    look: "`nsenter --net=PATH ip link show lo`.",
    fix: "`nsenter --net=PATH ip link set lo up`.",
    run: findLoopbackDown,
  },
];
