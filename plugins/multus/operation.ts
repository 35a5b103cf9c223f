/**
 * The frame of all operations of multus: the log, the container's lock, and the
 * API client, which is closed at the end.
 *
 * @module
 */

import type { Command } from "../../cni/call/args.ts";
import type { Call } from "../../cni/plugin.ts";
import type { MultusConfig } from "./model/config.ts";
import { asMultus } from "./model/failure.ts";
import type { OpenCluster } from "./pod/cluster.ts";
import { parseK8sArgs, parseK8sArgsLeniently } from "./model/k8s_args.ts";
import { OperationLog } from "./log/operation_log.ts";
import { openSession, type Session } from "./session.ts";

/** Operations that hold the container's lock. */
const EXCLUSIVE: readonly Command[] = ["ADD", "DEL"];

async function lockOf(session: Session): Promise<Disposable | undefined> {
  const { command, args: { containerId } } = session.call;
  if (!EXCLUSIVE.includes(command)) return undefined;
  const { lockContainer } = await import("./memory/container_lock.ts");
  return await lockContainer(session, containerId);
}

/** Runs an operation, and logs one line about it. */
export async function runOperation<T>(
  call: Call<MultusConfig>,
  operation: (session: Session) => Promise<T>,
  openCluster?: OpenCluster,
): Promise<T> {
  const { config, command, args, surroundings } = call;
  const log = new OperationLog(config, surroundings.onStderr);
  // Only ADD and CHECK must know the pod.
  const isStrict = command === "ADD" || command === "CHECK";
  const parse = isStrict ? parseK8sArgs : parseK8sArgsLeniently;
  const subject = { command, args, k8s: parseK8sArgsLeniently(args.args) };
  try {
    const k8s = await asMultus(
      { action: "error getting k8s args" },
      () => parse(args.args),
    );
    const session = openSession({ call, k8s, log, openCluster });
    await using _cluster = session.cluster;
    using _lock = await lockOf(session);
    const result = await operation(session);
    log.report(subject);
    return result;
  } catch (error) {
    log.report(subject, error);
    throw error;
  } finally {
    await log.finish();
  }
}
