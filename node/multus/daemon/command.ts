/**
 * `multus daemon`: keeps a connection to the API server open for the plugins of
 * its node, and caches the objects that they need.
 *
 * @module
 */

import type { Environment } from "../../../cni/args.ts";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { Channel } from "../../../kube/channel.ts";
import { KubeClient } from "../../../kube/client.ts";
import { openConnection } from "../../../kube/open_connection.ts";
import type { NetworkAttachmentDefinition, Pod } from "../../../kube/types.ts";
import type { CommandCall, FlagValues, Output } from "../../../tool/command.ts";
import type { LogLevel } from "../../../plugins/multus/log/operation_log.ts";
import { OperationLog } from "../../../plugins/multus/log/operation_log.ts";
import { ApiSocket } from "./api_socket.ts";
import { EventQueue } from "./event_queue.ts";
import { Forwarder } from "./forwarder.ts";
import { Handler } from "./handler.ts";
import { Informer } from "../../daemon/cluster/informer.ts";
import {
  type DAEMON_FLAGS,
  type DaemonOptions,
  readDaemonOptions,
} from "./options.ts";
import {
  rememberDefinition,
  rememberPod,
} from "../../daemon/cluster/remembered.ts";
import { Upstream } from "../../daemon/cluster/upstream.ts";

/** Time limit for pending work at the end, in milliseconds. */
const FAREWELL_MS = 300;

/**
 * Runs the command until the signal.
 *
 * @throws {CniError} 4 if the command line is invalid, 7 if no API server is
 *   configured, 5 if the socket cannot be created
 */
export async function daemon(
  call: CommandCall<FlagValues<typeof DAEMON_FLAGS>>,
): Promise<Output> {
  const { env, signal, onStderr } = call;
  const options = readDaemonOptions(call);
  const log = openLog(options.logLevel, onStderr);
  // Fails at once if nothing is configured.
  (await connect(options, env))[Symbol.dispose]();
  using upstream = new Upstream({ open: () => connect(options, env), log });
  await serve(options, { upstream, log, signal });
  return { json: {}, text: "" };
}

/** The objects that the parts of the daemon share. */
interface Surroundings {
  readonly upstream: Upstream;
  readonly log: OperationLog;
  readonly signal: AbortSignal;
}

async function serve(
  { nodeName, socketDir: folder }: DaemonOptions,
  { upstream, log, signal }: Surroundings,
): Promise<void> {
  const client = new KubeClient(upstream);
  const pods = nodeName === "" ? undefined : podsOf(nodeName, client, log);
  const definitions = definitionsOf(client, log);
  const forwarder = new Forwarder(upstream);
  const forward = forwarder.forward.bind(forwarder);
  const events = new EventQueue({ forward, log });
  const handler = new Handler({ pods, definitions, events, forwarder, log });
  const handle = handler.handle.bind(handler);
  const socket = await ApiSocket.listen({ folder, handle, log });
  log.info("listening", { folder, node: nodeName });
  await Promise.all([
    pods?.run(signal),
    definitions.run(signal),
    events.run(signal),
    socket.keepInPlace(signal),
  ]);
  await Promise.all([socket.close(FAREWELL_MS), events.finish(FAREWELL_MS)]);
  log.info("ended", { reason: signal.reason?.message });
}

function podsOf(
  nodeName: string,
  client: KubeClient,
  log: OperationLog,
): Informer<Pod> {
  return new Informer({
    client,
    path: "/api/v1/pods",
    fieldSelector: `spec.nodeName=${nodeName}`,
    remember: rememberPod,
    what: "pods",
    log,
  });
}

function definitionsOf(
  client: KubeClient,
  log: OperationLog,
): Informer<NetworkAttachmentDefinition> {
  return new Informer({
    client,
    path: "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
    remember: rememberDefinition,
    what: "network attachment definitions",
    log,
  });
}

/** @throws {CniError} 7 */
async function connect(
  { kubeconfig }: DaemonOptions,
  env: Environment,
): Promise<Channel> {
  const connection = await openConnection({ kubeconfig, env });
  if (connection !== undefined) return connection;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "Cannot reach the API server: neither a --kubeconfig nor a service account",
  );
}

/** Logs to stderr only: a daemon's output is collected by its supervisor. */
function openLog(
  logLevel: LogLevel,
  onStderr: (text: string) => void,
): OperationLog {
  const logOptions = {
    maxAgeDays: 0,
    maxSizeMegabytes: 0,
    maxBackups: 0,
    compress: false,
  };
  return new OperationLog(
    { logLevel, logToStderr: true, logOptions },
    onStderr,
  );
}
