/**
 * The programs, daemons and API servers that networks need.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { JoinedSignal } from "../../base/deadline.ts";
import { exists, ifPossible } from "../../base/files/io.ts";
import { ErrorCode, toCniError } from "../../base/error.ts";
import { formatTime } from "../../base/time.ts";
import { COMMAND_SINCE, CURRENT_VERSION } from "../../cni/version.ts";
import { mayHaveVersion } from "../../libcni/operation.ts";
import { openConnection } from "../../kube/connection.ts";
import type { Access } from "../../kube/access.ts";
import { readKubeconfig } from "../../kube/kubeconfig.ts";
import {
  formatFailureText,
  isDenied,
} from "../../base/command_line/failure.ts";
import { listNetworkNames } from "../node/network.ts";
import { findOwnType } from "../node/plugin_file.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { findMultusKeys } from "../../plugins/multus/inspect.ts";
import { typeHas } from "../../plugins/parts/traits.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  type More,
  warning,
} from "./finding.ts";
import {
  type ConfiguredNetwork,
  type NodeReader,
  oncePerNode,
  typesOf,
} from "../node/node_reader.ts";
import { countPools } from "../node/pools.ts";
import { typesWithIpam } from "../../cni/config/ipam.ts";

/** Time limit of an answer over the network, in ms. */
const ANSWER_TIMEOUT_MS = 3_000;

/** Time limit of STATUS, in ms: a daemon that hangs must not hide other findings. */
const STATUS_TIMEOUT_MS = 5_000;

/** Runs STATUS of each network's plugins, as far as they are this project's. */
async function findUnready(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  const full = countPools(node).filter(({ used, all }) => used >= all)
    .map(({ network }) => network);
  const usable = await node.findUsable();
  for (const network of node.networks) {
    // Other checks report these.
    if (full.includes(network.name)) continue;
    if (typesOf(network).some((type) => !usable(type))) continue;
    const refusal = network.plugins.map(({ type, document }) =>
      METADATA.get(type)?.refusal?.(document, node.env)
    ).find(Boolean);
    if (refusal !== undefined) {
      findings.push(error(
        `"${network.name}" is not ready: ${refusal}`,
        "containers of that network do not start",
        {
          advice: "remove the keys, or set them in a file in that directory",
          look: shell`cat ${network.path}`,
        },
      ));
      continue;
    }
    const problem = await askStatus(node, network);
    if (problem === undefined) continue;
    findings.push(error(
      `"${network.name}" is not ready: ${problem}`,
      "containers of that network do not start",
      {
        advice: "install, start or correct what the message names",
        look: node.cni(shell`status ${network.name}`),
      },
    ));
  }
  return findings;
}

async function askStatus(
  { runtime, signal, directories: { pluginDirs } }: NodeReader,
  { list, plugins }: ConfiguredNetwork,
): Promise<string | undefined> {
  const hasStatus = mayHaveVersion(list, COMMAND_SINCE.STATUS);
  for (const plugin of plugins) {
    const types = typesWithIpam([plugin]);
    const own = await Promise.all(
      types.map((type) => findOwnType(type, pluginDirs)),
    );
    const [type = plugin.type] = own;
    const isSkipped = typeHas(type, "runs listed plugins") ||
      typeHas(type, "records STATUS");
    if (isSkipped) continue;
    if (!hasStatus && !own.every(Boolean)) continue;
    const cniVersion = hasStatus ? list.cniVersion : CURRENT_VERSION;
    const asked = { ...list, cniVersion, plugins: [plugin] };
    try {
      using end = new JoinedSignal(STATUS_TIMEOUT_MS, signal);
      await runtime.statusNetworkList(asked, { signal: end.signal });
    } catch (error) {
      if (signal.aborted) throw error;
      // Validation reports what is wrong with the configuration, if it asks.
      const isReported =
        toCniError(error).code === ErrorCode.InvalidNetworkConfig &&
        !types.some((type) => METADATA.get(type)?.hasDeepStatus);
      if (isReported) continue;
      if (Deno.uid() !== 0) {
        // Plugins need root: the failure of an ordinary user says nothing about the node.
        throw new Deno.errors.PermissionDenied("STATUS failed", {
          cause: error,
        });
      }
      return formatFailureText(error);
    }
  }
  return undefined;
}

/** Finds files of the node that multus waits for or searches. */
function findMultusNeeds({ networks }: NodeReader): Findings {
  return networks.flatMap(({ name, path, plugins }) =>
    plugins.flatMap((plugin) => findMultusKeys(plugin) ?? []).flatMap(
      (keys) => {
        const { ready, wanted, directory, kubeconfig } = keys;
        const findings: Finding[] = [];
        if (ready !== "" && !exists(ready)) {
          findings.push(error(
            `"${ready}" does not exist, and multus of "${name}" waits for it`,
            "no pod starts: the cluster's network is not ready",
            {
              advice: "start the program that writes it, or correct " +
                `readinessindicatorfile in ${path}`,
              look: shell`ls -l ${ready}`,
            },
          ));
        }
        // A NetworkAttachmentDefinition might have that name.
        const isOfNode = wanted !== "" && kubeconfig === "";
        const isFound = wanted.includes("/")
          ? exists(wanted)
          : listNetworkNames(directory).includes(wanted);
        if (isOfNode && !isFound) {
          findings.push(error(
            `"${wanted}", the clusterNetwork of "${name}", does not exist` +
              (wanted.includes("/") ? "" : ` in "${directory}"`),
            "no pod starts, because multus finds no network for it",
            {
              advice:
                `correct clusterNetwork in ${path}, or write that network`,
              look: shell`ls ${wanted.includes("/") ? wanted : directory}`,
            },
          ));
        }
        return findings;
      },
    )
  );
}

/** A kubeconfig that multus uses, and its content. */
export interface UsedKubeconfig {
  readonly path: string;
  /** Name of the network. */
  readonly network: string;
  /** Undefined if it cannot be used. */
  readonly access: Access | undefined;
  /** Why it cannot be used. */
  readonly failure: unknown;
}

/** Reads the kubeconfigs that multus uses. */
export const readKubeconfigs: (
  node: NodeReader,
) => Promise<readonly UsedKubeconfig[]> = oncePerNode((node) => {
  const used = new Map(
    node.networks.flatMap(({ name, plugins }) =>
      plugins.flatMap((plugin) => {
        const { kubeconfig = "" } = findMultusKeys(plugin) ?? {};
        return kubeconfig === "" ? [] : [[kubeconfig, name] as const];
      })
    ),
  );
  return Promise.all(
    [...used].map(([path, network]) =>
      readKubeconfig(path, node.env).then(
        (access) => ({ path, network, access, failure: undefined }),
        (failure) => ({ path, network, access: undefined, failure }),
      )
    ),
  );
});

/** The command that installs the credentials again, with the DaemonSet's name in deploy/multus. */
const REINSTALL =
  "kubectl -n kube-system rollout restart daemonset/kube-multus-ds";

async function findKubeconfigs(node: NodeReader): Promise<Findings> {
  return (await readKubeconfigs(node)).flatMap(({ network, failure }) => {
    if (failure === undefined) return [];
    if (isDenied(failure)) throw failure;
    return [error(
      `multus of "${network}" cannot use its kubeconfig: ${
        formatFailureText(failure)
      }`,
      "no pod starts, because multus cannot query its networks",
      { command: REINSTALL },
    )];
  });
}

/** A token with less time than this left should have been renewed. Tokens live for an hour or longer. */
const RENEWAL_SECONDS = 300;

async function findTokens(node: NodeReader): Promise<Findings> {
  return (await readKubeconfigs(node)).flatMap(({ path, network, access }) => {
    const expiry = access && findExpiry(access);
    if (expiry === undefined) return [];
    const secondsLeft = Math.floor(expiry - Date.now() / 1000);
    if (secondsLeft >= RENEWAL_SECONDS) return [];
    const token = `the token in "${path}" of "${network}"`;
    return secondsLeft <= 0
      ? error(
        `${token} expired at ${formatTime(new Date(expiry * 1000))}`,
        "the API server refuses multus, and no pod starts",
        { command: REINSTALL },
      )
      : warning(
        `${token} expires in ${secondsLeft} s and was not renewed`,
        "soon the API server refuses multus, and no pod starts",
        { command: REINSTALL },
      );
  });
}

/** Returns when a service account's token expires, in seconds; undefined if it does not. */
function findExpiry({ credentials }: Access): number | undefined {
  const { authorization = "" } = credentials.known ?? {};
  const [, payload = ""] = authorization.replace(/^Bearer /, "").split(".");
  return ifPossible(() => {
    const bytes = Uint8Array.fromBase64(payload, { alphabet: "base64url" });
    const { exp } = JSON.parse(new TextDecoder().decode(bytes));
    return typeof exp === "number" ? exp : undefined;
  });
}

async function findApiServers(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  for (const { path, network, access } of await readKubeconfigs(node)) {
    if (access === undefined) continue;
    const problem = await askServer(path, node);
    if (problem === undefined) continue;
    const { text, ...help } = problem;
    findings.push(error(
      `the API server ${access.server} of "${network}" does not serve multus: ` +
        text,
      "multus cannot query a pod's networks, and no pod starts",
      help,
    ));
  }
  return findings;
}

/** Asks an API server for its version, once. Returns why it does not answer. */
async function askServer(
  kubeconfig: string,
  { env, signal }: NodeReader,
): Promise<({ readonly text: string } & More) | undefined> {
  const look = shell`kubectl --kubeconfig ${kubeconfig} version`;
  const advice = "start the API server again, or correct its address";
  using end = new JoinedSignal(ANSWER_TIMEOUT_MS, signal);
  try {
    using channel = await openConnection({ kubeconfig, env });
    const exchange = await channel?.send({ path: "/version" }, end.signal);
    await exchange?.answer.body?.cancel();
    const { status = 200 } = exchange?.answer ?? {};
    if (status === 401) {
      const text =
        "it refuses the credentials, as it does after the pod that " +
        "installed them was deleted";
      return { text, command: REINSTALL, look };
    }
    const text = `it answers with status ${status}`;
    return status < 400 ? undefined : { text, advice, look };
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { text: formatFailureText(cause), advice, look };
  }
}

/** Checks of services. */
export const SERVICE_CHECKS: readonly Check[] = [
  {
    code: "CNI0408",
    name: "multus-files",
    finds: "a file or network that multus needs does not exist",
    effect: "No pod starts.",
    cause:
      "The cluster's network has not started, or clusterNetwork or readinessindicatorfile is wrong.",
    howToInspect: "`ls` of the path in the finding.",
    howToFix: "Start the cluster's network, or correct the key.",
    run: findMultusNeeds,
  },
  {
    code: "CNI0401",
    name: "not-ready",
    finds: "STATUS of a plugin fails: a program, a daemon or a file is missing",
    effect: "Containers of that network do not start.",
    cause: "The message names what is missing.",
    howToInspect: "`cni status NETWORK`.",
    howToFix: "Install the program, or start the daemon.",
    run: findUnready,
  },
  {
    code: "CNI0405",
    name: "multus-kubeconfig",
    finds: "multus cannot use its kubeconfig",
    effect: "No pod starts.",
    cause: "It was removed, or the DaemonSet of multus has not written it.",
    howToInspect: "`ls -l` of the file.",
    howToFix: "Restart the DaemonSet of multus.",
    run: findKubeconfigs,
  },
  {
    code: "CNI0406",
    name: "multus-token",
    finds: "the token of multus has expired, or is about to",
    effect: "No pod starts.",
    cause: "The multus pod that renews the token is not running.",
    howToInspect: "`kubectl -n kube-system get pods -l app=multus`.",
    howToFix: "Restart the DaemonSet of multus.",
    run: findTokens,
  },
  {
    code: "CNI0407",
    name: "api-server",
    finds: "the API server does not answer multus",
    effect: "No pod starts.",
    cause: "The API server is down or unreachable, or refuses the credentials.",
    howToInspect: "`kubectl --kubeconfig FILE version`.",
    howToFix:
      "Restore the API server; restart the DaemonSet of multus if it refuses the credentials.",
    run: findApiServers,
  },
];
