/**
 * The node daemon, and the daemon of thick multus.
 *
 * @module
 */

import { findValue } from "../../base/json/json.ts";
import { shell } from "../../base/command_line/shell.ts";
import { dirname } from "@std/path/posix";
import { buildIdentity } from "../../base/process/build_identity.ts";
import {
  configKeysOf,
  DEFAULT_SOCKET,
  httpSocketIn,
  listSockets,
  NO_DAEMON,
  offFile,
  SHIM,
  SHIM_DIRECTORY,
  SocketKey,
} from "../../daemon/wire/daemon_socket.ts";
import { isTaken } from "../../base/files/io.ts";
import { readStart } from "../../base/process/process_files.ts";
import { fileExists } from "../../ffi/socket/unix_stream.ts";
import { type NodeDaemon, type ReasonRow } from "../node/node_daemon.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { DaemonService, RESTART_POD } from "../install/daemon_service.ts";
import type { Remedy } from "../probe/cause.ts";
import { listRuntimes } from "./runtimes.ts";
import { type NodeReader, oncePerNode } from "../node/node_reader.ts";
import { findOwnPlugin } from "../node/plugin_file.ts";

/** Describes how to start a daemon anew. The labels are those in deploy/. */
const adviseRestart = oncePerNode(async ({ signal }): Promise<Remedy> => {
  const service = DaemonService.find(signal);
  const isPod = service?.isLive === true &&
    !await service.isInUse().catch(() => true);
  return isPod
    ? {
      advice: RESTART_POD,
      look: "kubectl get pods -A -o wide " +
        "-l 'app in (cni-plugins, cni-daemon, multus)'",
    }
    : { command: "cni daemon restart" };
});

/** Shows the pods of thick multus. */
const SHOW_THICK = "kubectl -n kube-system get pods -l app=multus";

/** The effect of a daemon that is not used. */
const SLOWER = "each call starts its own JavaScript engine, which is slower";

/** A socket, and the networks that name it. */
interface Named {
  readonly socket: string;
  readonly networks: readonly string[];
  /** Whether calls fail without a daemon there. */
  readonly isNeeded: boolean;
}

/** Lists the sockets that networks name. */
function listNamed({ networks }: NodeReader): Named[] {
  const all = networks.flatMap(({ name, plugins }) =>
    plugins.flatMap((conf) => {
      const isNeeded = conf.type === SHIM;
      const directory = findValue(conf.document, SocketKey.directory);
      const socket = isNeeded
        ? httpSocketIn(
          typeof directory === "string" ? directory : SHIM_DIRECTORY,
        )
        : findValue(conf.document, SocketKey.socket);
      return typeof socket === "string" && socket !== ""
        ? [{ socket, name, isNeeded }]
        : [];
    })
  );
  return [...Map.groupBy(all, ({ socket }) => socket)]
    .map(([socket, some]) => ({
      socket,
      networks: [...new Set(some.map(({ name }) => `"${name}"`))],
      isNeeded: some.some(({ isNeeded }) => isNeeded),
    }));
}

/** Finds sockets that networks name, but at which no process listens. */
async function findAbsent(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  for (const { socket, networks, isNeeded } of listNamed(node)) {
    const daemon = await node.daemonAt(socket);
    if (daemon.is !== "absent") continue;
    const make = isNeeded ? error : warning;
    findings.push(make(
      `no daemon answers at "${socket}" of ${networks.join(", ")}: ` +
        "nothing listens there",
      isNeeded ? "containers of that network neither start nor stop" : SLOWER,
      isNeeded
        ? { advice: "start the DaemonSet of multus again", look: SHOW_THICK }
        : await adviseRestart(node),
    ));
  }
  return findings;
}

/** Finds daemons that calls cannot use, and calls that do not use them. */
async function findUnused(node: NodeReader): Promise<Findings> {
  const named = listNamed(node).filter(({ isNeeded }) => !isNeeded)
    .map(({ socket }) => socket);
  const findings: Finding[] = [];
  for (const socket of new Set([node.daemonSocket, ...named])) {
    const daemon = await node.daemonAt(socket);
    findings.push(...await describe(node, socket, daemon));
  }
  return findings;
}

async function describe(
  node: NodeReader,
  socket: string,
  daemon: NodeDaemon,
): Promise<Finding[]> {
  switch (daemon.is) {
    case "absent":
      // It is faster with a daemon, but nothing is wrong unless one was killed: it
      // removes its socket otherwise.
      return fileExists(socket)
        ? [warning(
          `the node daemon at "${socket}" has died: nothing listens there`,
          SLOWER,
          await adviseRestart(node),
        )]
        : [];
    case "foreign":
      return [warning(
        `process ${daemon.pid} of user ${daemon.uid} listens at "${socket}"`,
        `plugins do not trust it; ${SLOWER}`,
        {
          advice: "stop that process: only root may listen there",
          look: `ps -p ${daemon.pid} -o user,args`,
        },
      )];
    case "silent":
      return [warning(
        `the node daemon at "${socket}" does not answer` +
          (daemon.isStopped ? `: process ${daemon.pid} is stopped` : ""),
        isOff(socket)
          ? `ten calls within a minute got no answer, so other calls no longer use it; ${SLOWER}`
          : "each call waits a second for it, and then runs locally",
        daemon.isStopped
          ? { command: `kill -CONT ${daemon.pid}` }
          : await adviseRestart(node),
      )];
    case "running":
      // What is not used is reported by daemon-idle.
      return [
        ...await findOtherBuild(node, socket, daemon),
        ...findDeclined(socket, daemon),
      ];
  }
}

type Running = NodeDaemon & { readonly is: "running" };

async function findOtherBuild(
  node: NodeReader,
  socket: string,
  { state }: Running,
): Promise<Finding[]> {
  if (state?.build === buildIdentity) return [];
  return [warning(
    `the node daemon at "${socket}" is a different build than this program` +
      (state === undefined ? "" : `: version ${state.version}`),
    `it declines calls of this build, which then run locally; ${SLOWER}`,
    await adviseRestart(node),
  )];
}

/** Reasons that last for a moment, or that another finding reports. */
const PASSING: readonly ReasonRow["reason"][] = [
  "the daemon ends",
  "another build",
];

/** Finds why the daemon left the last calls to their callers. */
function findDeclined(socket: string, { state }: Running): Finding[] {
  if (state === undefined) return [];
  const { recent: { calls }, reasons } = state.calls;
  const http = httpSocketIn(dirname(socket));
  return reasons
    .filter(({ reason, recent }) => recent > 0 && !PASSING.includes(reason))
    .map(({ reason, advice, recent, lastCall }) =>
      warning(
        `${recent} of the last ${calls} calls to the node daemon ran ` +
          `locally: ${reason}` +
          (lastCall === undefined ? "" : ` (the last one: ${lastCall})`),
        SLOWER,
        {
          advice,
          look: shell`curl --unix-socket ${http} http://localhost/state`,
        },
      )
    );
}

/** Finds a daemon that no plugin call uses. */
async function findIdle(node: NodeReader): Promise<Findings> {
  const { daemonSocket, networks, directories: { pluginDirs } } = node;
  if (networks.length === 0) return [];
  const daemon = await node.daemonAt(daemonSocket).catch(() => undefined);
  if (daemon?.is !== "running") return [];
  const off = listRuntimes(node).filter(({ pid }) =>
    readStart(`${node.proc}/${pid}/environ`).split("\0")
      .some((variable) => variable.startsWith(`${NO_DAEMON}=`))
  );
  const [service] = off;
  if (service !== undefined) {
    return [warning(
      `${NO_DAEMON} is set for ${service.name} (${service.pid}), but a node ` +
        `daemon runs at "${daemonSocket}"`,
      `plugins do not use it; ${SLOWER}`,
      {
        advice:
          `remove ${NO_DAEMON} from the unit, and restart ${service.name}`,
        look: shell`systemctl cat ${service.unit}`,
      },
    )];
  }
  for (const { plugins } of networks) {
    for (const { type, document } of plugins) {
      const asks = listSockets(type, configKeysOf(document)).some((socket) =>
        socket === daemonSocket || socket === DEFAULT_SOCKET
      );
      if (asks && await findOwnPlugin(type, pluginDirs)) return [];
    }
  }
  return [warning(
    `a node daemon runs at "${daemonSocket}", but no network in ` +
      `"${node.directories.confDir}" uses it`,
    SLOWER,
    {
      advice: "remove daemonSocket from the networks, and install this " +
        "project's plugins in CNI_PATH; or stop the daemon",
      look: node.cni("networks"),
    },
  )];
}

/** Reports whether callers have stopped asking the daemon at a socket. */
function isOff(socket: string): boolean {
  return isTaken(offFile(socket));
}

/** Checks of daemons. */
export const DAEMON_CHECKS: readonly Check[] = [
  {
    code: "CNI0402",
    name: "daemon",
    finds: "the node daemon, or the daemon of thick multus, does not listen",
    effect:
      "Plugins run their calls locally, which is slower. Without the daemon of thick multus no pod starts.",
    cause:
      "The service was stopped or failed, or a configuration names a different socket.",
    howToInspect: "`cni daemon status`, `journalctl -u cni-daemon`.",
    howToFix:
      "`cni daemon restart`, or delete the node's pod of its DaemonSet.",
    run: findAbsent,
  },
  {
    code: "CNI0403",
    name: "daemon-unused",
    finds: "the node daemon does not answer, or calls do not use it",
    effect:
      "Plugins run calls locally, which is slower, and first wait for a stopped daemon.",
    cause:
      "It was stopped by a signal, hangs, is a different build, or runs in different namespaces than the callers.",
    howToInspect: "`cni daemon status`.",
    howToFix:
      "`cni daemon restart`, or delete the node's pod of its DaemonSet; `kill -CONT PID` for a stopped one.",
    run: findUnused,
  },
  {
    code: "CNI0404",
    name: "daemon-idle",
    finds: "a node daemon runs, and no network uses it",
    effect: "Calls are slower.",
    cause:
      "Configurations name a different socket, third-party plugins come first in CNI_PATH, or CNI_NO_DAEMON is set for the runtime.",
    howToInspect: "`cni networks`, `cni plugins`, `cni daemon status`.",
    howToFix:
      "Remove `daemonSocket`; put this project's plugins first in CNI_PATH; or stop the daemon.",
    run: findIdle,
  },
];
