/**
 * One call's access to the cluster.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { type Command, loadArgs } from "../../cni/call/args.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { yieldIfLong } from "../../base/long_wait.ts";
import type { ClientOptions } from "../../kube/client.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { type ApiClient, WhereaboutsApi } from "./api.ts";
import { ClaimApi } from "./claims/api.ts";
import { findPools, type Pool } from "./pools.ts";
import type { NotedClaim } from "./claims/ipam_claim.ts";
import { type AllocationFile, AllocationFiles } from "./allocation_files.ts";
import {
  type PodInterface,
  readSettings,
  type Settings,
  type WhereaboutsCall,
} from "./settings.ts";

/** Opens a client without sending a request; the caller closes it. */
export type OpenClient = (
  options: ClientOptions,
) => Promise<ApiClient | undefined>;

/** Opens a client for one call. */
export async function openOwnClient(
  options: ClientOptions,
): Promise<ApiClient | undefined> {
  const { openKubeClient } = await import("../../kube/client.ts");
  return await openKubeClient(options);
}

/**
 * Commands that wait for the API server as long as the configuration allows.
 */
const FULL_TIMEOUT: readonly Command[] = ["ADD", "DEL", "GC"];
/** Time limit of such a command by default, in milliseconds. */
const LIMIT_MS = 60_000;
/** Time limit of other commands, and of undoing a failed ADD, which DEL repeats. */
const SHORT_MS = 10_000;
/** Namespace of the objects, if the kubeconfig's context has none. */
export const DEFAULT_NAMESPACE = "kube-system";

/** A command's input and its access to the cluster. */
export interface Session {
  readonly call: WhereaboutsCall;
  readonly settings: Settings;
  readonly api: WhereaboutsApi;
  readonly owner: PodInterface;
  readonly files: AllocationFiles;
  /** The command's time limit. */
  readonly signal: AbortSignal;
  /** Finds the pools of the network. */
  pools(): Promise<Pool[]>;
  /** Returns an API with a separate time limit, for clean-up. */
  spareApi(): WhereaboutsApi;
  /**
   * Returns an API of IPAMClaims.
   *
   * @param limitMs Time limit in milliseconds; the command's by default
   */
  claims(limitMs?: number): ClaimApi;
  /** Receives an IPAMClaim whose addresses the pod gets. */
  readonly onClaim?: ((claim: NotedClaim) => void) | undefined;
}

/**
 * Runs a command.
 *
 * @throws {CniError} 7 if the configuration is invalid; failed requests as 11
 * if they might succeed later, otherwise 7
 */
export async function withSession<T>(
  call: WhereaboutsCall,
  open: OpenClient,
  run: (session: Session) => Promise<T>,
): Promise<T> {
  const settings = readSettings(call.config);
  const { kubeconfig } = settings;
  const { env } = call.context;
  const namespace = await findNamespace(kubeconfig);
  using client = await open({ kubeconfig, env });
  if (client === undefined) throw new Error("a kubeconfig has a client");
  const { apiTimeoutSeconds = LIMIT_MS / 1000 } = settings;
  const hasFullTimeout = FULL_TIMEOUT.includes(call.command);
  const limitMs = hasFullTimeout ? apiTimeoutSeconds * 1000 : SHORT_MS;
  using limit = new JoinedSignal(limitMs, call.signal);
  const { signal } = limit;
  const api = new WhereaboutsApi(client, namespace, {
    signal,
    overallMs: limitMs,
  });
  try {
    const session: Session = {
      call,
      settings,
      api,
      owner: readOwner(call),
      files: new AllocationFiles(settings.dataDir, call.network, call.log),
      signal,
      pools: () => findPools({ settings, api, network: call.network, env }),
      spareApi: () =>
        new WhereaboutsApi(client, namespace, { overallMs: SHORT_MS }),
      claims: (ownMs) =>
        new ClaimApi(
          client,
          ownMs === undefined
            ? { signal, overallMs: limitMs }
            : { overallMs: ownMs, perTryMs: ownMs },
        ),
    };
    // It waits for the server, or for other writers.
    return await yieldIfLong(() => run(session));
  } catch (error) {
    throw await toStorageError(error);
  }
}

/** Returns the namespace of the objects. */
export async function findNamespace(kubeconfig: string): Promise<string> {
  const { readNamespace } = await import("../../kube/kubeconfig.ts");
  return await readNamespace(kubeconfig) || DEFAULT_NAMESPACE;
}

/** The content of CNI_ARGS. */
interface KnownArgs {
  /** `NAMESPACE/NAME` of the pod; "" if absent. */
  readonly podref: string;
  /** Requested addresses, inside and outside the ranges. */
  readonly ips: readonly Cidr[];
  /** Each gateway applies to the addresses of its subnet. */
  readonly gateways: readonly Ip[];
}

/**
 * Parses CNI_ARGS.
 *
 * Source: whereabouts pkg/types/types.go `IPAMEnvArgs`.
 *
 * @throws {CniError} 4 if it is malformed, or has an unknown key without
 *   `IgnoreUnknown=1`
 */
export function parsePodArgs(text: string): KnownArgs {
  const asItIs = (value: string): string => value;
  const found = loadArgs(text, {
    IP: (list) => split(list).map(Cidr.parse),
    GATEWAY: (list) => split(list).map(Ip.parse),
    K8S_POD_NAMESPACE: asItIs,
    K8S_POD_NAME: asItIs,
    K8S_POD_INFRA_CONTAINER_ID: asItIs,
    K8S_POD_UID: asItIs,
  });
  const { K8S_POD_NAMESPACE: namespace = "", K8S_POD_NAME: name = "" } = found;
  return {
    podref: name === "" ? "" : `${namespace}/${name}`,
    ips: found.IP ?? [],
    gateways: found.GATEWAY ?? [],
  };
}

function split(list: string): string[] {
  return list.split(",").map((item) => item.trim());
}

/** DEL and GC must not fail because of CNI_ARGS. */
function readOwner({ args, command }: WhereaboutsCall): PodInterface {
  const { containerId, ifName, args: text } = args;
  const isStrict = command === "ADD" || command === "CHECK";
  const podref = isStrict
    ? parsePodArgs(text).podref
    : ifPossible(() => parsePodArgs(text).podref) ?? "";
  return { containerId, ifName, podref };
}

/**
 * Writes the allocation file of an attachment. A failure is logged only: without the
 * file, DEL takes longer, and an IPAMClaim continues to name the pod.
 */
export function writeAllocationFile(
  { api: { namespace }, owner, files, call: { log } }: Session,
  file: Omit<AllocationFile, "namespace">,
): void {
  try {
    files.write(owner, { namespace, ...file });
  } catch (error) {
    log.warn("Cannot write the allocation file", {
      error: describeError(error),
    });
  }
}

/**
 * Adds the context in the words of upstream whereabouts.
 *
 * @returns A CniError for a failed request, with code 11 if it might succeed later
 */
export async function toStorageError(error: unknown): Promise<unknown> {
  const { KubeError, kubeErrorCode } = await import("../../kube/kube_error.ts");
  const isRequest = error instanceof KubeError;
  if (!isRequest && !(error instanceof CniError)) return error;
  const code = isRequest ? kubeErrorCode(error) : error.code;
  const status = isRequest && error.status !== 0
    ? `HTTP status ${error.status}`
    : "";
  const details = isRequest ? status : error.ownDetails ?? "";
  const message = `error at storage engine: ${error.message}`;
  return new CniError(code, message, { details });
}

/** Returns the error for a call without a pod. */
export function noPodName(): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    "IPAM client initialization error: no pod name",
    { details: "CNI_ARGS lacks K8S_POD_NAME" },
  );
}
