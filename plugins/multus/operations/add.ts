/**
 * ADD: attaches a pod to all its networks.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import { deadline } from "../../../base/deadline.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { Rollback, UNDO_MS } from "../../../base/rollback.ts";
import type { RuntimeConf } from "../../../libcni/operation.ts";
import type { ForeignResult } from "../../../cni/plugin.ts";
import { emptyResult, type Result } from "../../../cni/result/result.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import { attach, attachmentFailure } from "../attach/attach.ts";
import {
  checkInterfaceNames,
  InterfaceNameError,
  listInterfaceNames,
} from "../permit/interface_names.ts";
import {
  type Attached,
  delegateAttachmentOf,
  type NetworkAttachment,
} from "../model/attachment.ts";
import type { Delegate } from "../model/delegate.ts";
import { checkPermitted } from "../permit/permitted.ts";
import {
  findPod,
  POD_IS_GONE,
  type PodInfo,
  waitUntilReady,
} from "../pod/pod.ts";
import { setRoutes } from "../route/route.ts";
import { selectDelegates } from "../select/select.ts";
import { postErrorEvent, type Session } from "./session.ts";
import { withMultusError } from "../model/failure.ts";

/**
 * Attaches a pod to its networks, in order, and reports them to the API server. A
 * failure undoes everything, in reverse order.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdAdd`.
 *
 * @returns The master's result, in the version of multus' configuration, which can
 * differ from the version of the master's configuration
 */
export async function add(session: Session): Promise<Result | ForeignResult> {
  const { call: { args, network }, k8s, scratch } = session;
  const found = await withMultusError({ k8s }, () => findNetworks(session));
  if (found === POD_IS_GONE) return resultWithoutPod(args);
  const { pod, delegates, reserved } = found;
  using _reserved = reserved;
  checkNames(session, delegates);
  await withMultusError(
    { k8s, action: "error saving the delegates" },
    () => scratch.write(args.containerId, delegates, network),
  );
  try {
    return await attachAll(session, delegates, pod);
  } catch (error) {
    await postErrorEvent(session, pod, error);
    throw error;
  }
}

/** Waits until the node is ready, then finds the pod and its networks. */
async function findNetworks(session: Session): Promise<
  | Selected & { readonly pod: PodInfo | undefined }
  | typeof POD_IS_GONE
> {
  const { call: { config, signal }, k8s, cluster, log } = session;
  const { readinessIndicatorFile, runtimeConfig } = config;
  await waitUntilReady(readinessIndicatorFile, signal);
  const pod = await findPod({ k8s, runtimeConfig, cluster, signal });
  if (pod === POD_IS_GONE) return POD_IS_GONE;
  if (pod !== undefined) {
    cluster.prepare();
  } else if (k8s.podName !== "" && !cluster.isConfigured) {
    log.verbose("No kubeconfig, so the pod's annotations are not read");
  }
  return { pod, ...await selectNetworks(session, pod) };
}

interface Selected {
  readonly delegates: Delegate[];
  /** The reservation of the requested addresses for this pod. */
  readonly reserved: Disposable | undefined;
}

/**
 * Selects the pod's networks. If a network cannot be attached, an event contains the
 * reason.
 */
async function selectNetworks(
  session: Session,
  pod: PodInfo | undefined,
): Promise<Selected> {
  try {
    const delegates = await selectDelegates(session, pod);
    const reserved = await checkPermitted(session, delegates);
    return { delegates, reserved };
  } catch (error) {
    await postErrorEvent(session, pod, error);
    throw error;
  }
}

/**
 * Builds the result for a pod that was deleted before its sandbox was created:
 * ADD succeeds, so that the runtime continues to delete the pod.
 */
function resultWithoutPod({ ifName, netns }: CmdArgs): Result {
  return {
    ...emptyResult(),
    interfaces: [{ name: ifName, sandbox: netns }],
    ips: [{ address: Cidr.parse("0.0.0.0/0"), gateway: Ip.parse("0.0.0.0") }],
  };
}

/** Checks the names before anything is created or written. */
function checkNames(session: Session, delegates: readonly Delegate[]): void {
  try {
    checkInterfaceNames(delegates, session.call.args);
  } catch (error) {
    if (!(error instanceof InterfaceNameError)) throw error;
    const delegate = delegates[error.index];
    throw delegate ? attachmentFailure(session, delegate, error) : error;
  }
}

async function attachAll(
  session: Session,
  delegates: readonly Delegate[],
  pod: PodInfo | undefined,
): Promise<ForeignResult> {
  await using rollback = new Rollback(session.log);
  const attached: Attached[] = [];
  for (const [index, delegate] of delegates.entries()) {
    const attachment = delegateAttachmentOf(session, { delegates, index });
    // Registered before ADD, which can fail in the middle of a list of plugins.
    rollback.onFailure(
      `detach the pod from network "${delegate.name}"`,
      () => undo(session, attachment),
    );
    attached.push(
      await attachOne(session, delegates, delegate, attachment.conf),
    );
  }
  const result = await masterResultOf(session, attached);
  if (pod !== undefined) {
    const { publish } = await import("../report/report.ts");
    await withMultusError(
      { k8s: session.k8s },
      () => publish(session, pod, attached),
    );
  }
  rollback.commit();
  return result;
}

/**
 * Returns the master's result. In the configuration's version it is unchanged,
 * including unknown keys; otherwise it is converted.
 *
 * Source: CNI spec 1.1.0, "Version considerations".
 *
 * @throws {CniError} 1 if it cannot be converted to that version
 */
async function masterResultOf(
  { call: { cniVersion } }: Session,
  [master]: readonly Attached[],
): Promise<ForeignResult> {
  if (master === undefined) return { document: {} };
  const { document, result } = master;
  if (document["cniVersion"] === cniVersion) return { document };
  const { encodeResult } = await import("../../../cni/result/encoding.ts");
  return { document: encodeResult(result, cniVersion) };
}

/**
 * Undoes an attachment with a separate deadline, because ADD's deadline might have
 * passed.
 */
async function undo(
  session: Session,
  attachment: NetworkAttachment,
): Promise<void> {
  if (isOfEarlierAdd(session, attachment.conf)) return;
  const { detach } = await import("../attach/detach.ts");
  await detach(session, attachment, deadline(UNDO_MS));
}

/**
 * Reports whether an attachment might belong to an earlier ADD, so that DEL would end
 * it: an ADD failed because its attachment exists, and this attachment has no
 * interface, as with a device that a DPDK driver uses. Interfaces always belong to
 * this ADD, which starts only if their names are unused.
 */
export function isOfEarlierAdd(
  session: Session,
  { netns, ifName }: Pick<RuntimeConf, "netns" | "ifName">,
): boolean {
  return session.isSecondAdd() &&
    !ifPossible(() => listInterfaceNames(netns))?.includes(ifName);
}

/**
 * Attaches a pod to a network, and adds the requested routes over it.
 *
 * @throws {CniError} With the code of the cause
 */
export async function attachOne(
  session: Session,
  delegates: readonly Delegate[],
  delegate: Delegate,
  conf: RuntimeConf,
): Promise<Attached> {
  try {
    return await session.log.time(delegate.name, async () => {
      const attached = await attach(session, delegate, conf);
      return await setRoutes(session, delegates, attached);
    });
  } catch (error) {
    throw attachmentFailure(session, delegate, error);
  }
}
