/**
 * Attaches a running pod to an additional network, and detaches it again, for
 * controllers such as multus-dynamic-networks-controller.
 *
 * The pod's scratch file records the network, so that DEL of the pod detaches it. Go
 * multus does not record it, so resources of such a network remain if the pod is
 * deleted before a controller detaches it.
 *
 * Source: multus-cni pkg/server/server.go `cmdDelegateAdd`, `cmdDelegateDel`,
 * `cmdDelegateCheck`, `cmdDelegateStatus`.
 *
 * @module
 */

import { deadline } from "../../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import { omitAbsent } from "../../../base/json/json.ts";
import { Rollback, UNDO_MS } from "../../../base/rollback.ts";
import { toNetworkConfList } from "../../../libcni/conf.ts";
import {
  type Call,
  definePlugin,
  type ForeignResult,
  type Plugin,
} from "../../../cni/plugin.ts";
import { SPEC_VERSIONS } from "../../../cni/version.ts";
import { CLAIM_REFERENCE } from "../../../kube/pod_evidence.ts";
import { checkInterfaceNames } from "../permit/interface_names.ts";
import { detach, isCached, restoreAttachment } from "../attach/detach.ts";
import {
  type Attached,
  delegateAttachmentOf,
  type DelegatePosition,
  interfaceNameOf,
} from "../model/attachment.ts";
import { type MultusConfig, multusSchema } from "../model/config.ts";
import {
  type AttachmentRequest,
  type Delegate,
  isList,
  loadDelegate,
  ROUTES,
} from "../model/delegate.ts";
import { injectCniArgs, removeReserved } from "../model/edit_delegate.ts";
import { inContext } from "../model/network_error.ts";
import type { MultusOptions } from "../plugin.ts";
import { checkPermitted } from "../permit/permitted.ts";
import { findPod, POD_IS_GONE, type PodInfo } from "../pod/pod.ts";
import { checkAttachmentRoutes } from "../route/route.ts";
import { parseNetworks } from "../select/annotations.ts";
import { checkIp, isHardwareAddress } from "../select/addresses.ts";
import {
  claimAddresses,
  withRequest,
} from "../select/attachment_definitions.ts";
import { checkDefinition, checkSize } from "../select/definition_policy.ts";
import { NETWORKS } from "../select/select.ts";
import { evidenceFinder } from "../select/lookups.ts";
import { attachOne, isOfEarlierAdd } from "./add.ts";
import { postErrorEvent, runInSession, type Session } from "./session.ts";

/** The network to attach a pod to, or to detach it from. */
export interface HotPlug {
  /** The network's configuration, unchanged. */
  readonly config: Uint8Array;
  /** The attributes that the controller requests for the interface. */
  readonly request: Pick<AttachmentRequest, "ips" | "mac" | "cniArgs">;
}

/**
 * Builds a plugin for the calls with a single network. CNI_IFNAME names the
 * interface; the plugin's own configuration is multus' configuration without
 * networks.
 */
export function createHotPlug(
  plug: HotPlug,
  { openCluster }: MultusOptions = {},
): Plugin<MultusConfig> {
  const operate = <T>(
    call: Call<MultusConfig>,
    run: (session: Session, place: PluggedPlace) => Promise<T>,
  ): Promise<T> =>
    runInSession(call, (session) => run(session, placeOf(plug)), openCluster);
  return definePlugin<MultusConfig>({
    name: "multus",
    versions: SPEC_VERSIONS,
    configSchema: () => multusSchema(),
    add: (call) => operate(call, plugIn),
    del: (call) => operate(call, unplug),
    check: (call) => operate(call, check),
    status: (call) => operate(call, status),
  });
}

/** The single network of a call. */
interface PluggedPlace extends DelegatePosition {
  /** The network without the requested attributes. */
  readonly definition: Delegate;
}

function placeOf({ config, request }: HotPlug): PluggedPlace {
  const { cniArgs } = request;
  checkAddresses(request);
  checkSize(config, "the network to plug in");
  const definition = removeReserved(loadDelegate(config, { request }));
  const delegate = cniArgs ? injectCniArgs(definition, cniArgs) : definition;
  return { delegates: [delegate], definition, index: 0, isMaster: false };
}

/** @throws {CniError} 7 with the Go version's text */
function checkAddresses(
  { mac = "", ips = [] }: HotPlug["request"],
): void {
  const context = "DelegateAdd";
  if (mac !== "" && !isHardwareAddress(mac)) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `${context}: failed to parse mac address ${JSON.stringify(mac)}`,
    );
  }
  try {
    ips.forEach(checkIp);
  } catch (error) {
    throw inContext(context, error);
  }
}

function delegateOf({ delegates }: DelegatePosition): Delegate {
  return delegates[0] as Delegate;
}

async function plugIn(
  session: Session,
  given: PluggedPlace,
): Promise<ForeignResult> {
  const pod = await findPodOf(session);
  const place = await withAnnotated(session, given, pod);
  const delegate = delegateOf(place);
  using reserved = new DisposableStack();
  try {
    await checkNetwork(session, given);
    reserved.use(await checkPermitted(session, place.delegates));
  } catch (error) {
    await postErrorEvent(session, pod, error);
    throw error;
  }
  checkInterfaceNames(place.delegates, session.call.args);
  await using rollback = new Rollback(session.log);
  remember(session, delegate);
  rollback.onFailure(
    `detach the pod from network "${delegate.name}"`,
    async () => {
      const { conf } = delegateAttachmentOf(session, place);
      if (isOfEarlierAdd(session, conf)) return;
      await detachFrom(session, place, deadline(UNDO_MS));
    },
  );
  const attached = await attachTo(session, place, pod);
  const { encodeResult } = await import("../../../cni/result/encoding.ts");
  const document = encodeResult(attached.result, session.call.cniVersion);
  rollback.commit();
  if (pod !== undefined) await postAttachedEvent(session, pod, attached);
  return { document };
}

/** Keys of the annotation that controllers omit. */
const LEFT_OUT = [CLAIM_REFERENCE, ROUTES];

/**
 * Adds the IPAMClaim that the pod's annotation names for the interface, and the
 * requested routes over it.
 */
async function withAnnotated(
  session: Session,
  place: PluggedPlace,
  pod: PodInfo | undefined,
): Promise<PluggedPlace> {
  if (pod === undefined) return place;
  const { log, call: { args: { ifName } } } = session;
  const networks = pod.annotations[NETWORKS] ?? "";
  // A malformed annotation without these keys does not concern this network.
  const selections = LEFT_OUT.some((key) => networks.includes(key))
    ? parseNetworks(networks, pod.namespace)
    : [];
  const { claim, routes } =
    selections.find(({ request }) => request.ifName === ifName)?.request ?? {};
  const { request, ...delegate } = delegateOf(place);
  const annotated = omitAbsent<AttachmentRequest>({
    ...request,
    claim,
    routes,
  });
  const claimed = await claimAddresses(
    { ...delegate, request: annotated },
    { findEvidence: evidenceFinder(session, pod), log },
  );
  return { ...place, delegates: [claimed] };
}

/**
 * Checks the network like a definition, and the request like an annotation's request,
 * because the controller reads both from there.
 */
async function checkNetwork(
  { call: { config } }: Session,
  { definition }: PluggedPlace,
): Promise<void> {
  checkDefinition(definition, `network "${definition.name}"`, config);
  await withRequest(definition, config);
}

/** @throws {CniError} 3 if the API server does not have the pod */
async function findPodOf(session: Session): Promise<PodInfo | undefined> {
  const { call: { signal }, k8s, cluster } = session;
  const pod = await findPod({ k8s, runtimeConfig: {}, cluster, signal });
  if (pod !== POD_IS_GONE) return pod;
  throw new CniError(
    ErrorCode.UnknownContainer,
    "pod not found during Multus GetPod",
    { details: `${k8s.podNamespace}/${k8s.podName}` },
  );
}

async function attachTo(
  session: Session,
  place: DelegatePosition,
  pod: PodInfo | undefined,
): Promise<Attached> {
  try {
    const { conf } = delegateAttachmentOf(session, place);
    return await attachOne(session, place.delegates, delegateOf(place), conf);
  } catch (error) {
    await postErrorEvent(session, pod, error);
    throw error;
  }
}

async function postAttachedEvent(
  session: Session,
  pod: PodInfo,
  attached: Attached,
): Promise<void> {
  const { postAttachmentEvents } = await import("../report/events.ts");
  try {
    await postAttachmentEvents(session, await session.cluster.client(), pod, [
      attached,
    ]);
  } catch (error) {
    session.log.warn("Cannot post an event", { error: describeError(error) });
  }
}

/** @throws The failure, unlike a DEL of the pod */
async function unplug(
  session: Session,
  place: PluggedPlace,
): Promise<void> {
  await detachFrom(session, place, session.call.signal);
}

async function detachFrom(
  session: Session,
  place: PluggedPlace,
  signal: AbortSignal | undefined,
): Promise<void> {
  const delegate = delegateOf(place);
  const { network, conf } = delegateAttachmentOf(session, place);
  // A recorded network has passed ADD, or is older than the policy.
  if (!isCached(session, network, conf)) await checkNetwork(session, place);
  await session.log.time(
    delegate.name,
    () => detach(session, { network, conf }, signal),
  );
  forget(session, delegate);
}

async function check(
  session: Session,
  place: PluggedPlace,
): Promise<void> {
  const { runtime, call: { signal } } = session;
  const own = delegateAttachmentOf(session, place);
  if (!isCached(session, own.network, own.conf)) {
    await checkNetwork(session, place);
  }
  const { network, conf } = restoreAttachment(session, own);
  await runtime.checkNetworkList(network, conf, { signal });
  await checkAttachmentRoutes(session, { ...own, routes: findRoutes(session) });
}

/** Finds the routes over the interface in the pod's scratch file. */
function findRoutes({ scratch, call }: Session): Delegate["request"]["routes"] {
  const { containerId, ifName } = call.args;
  const { delegates } = scratch.readUsable(containerId);
  return delegates.find((_, index) =>
    interfaceNameOf(delegates, index, "") === ifName
  )?.request.routes;
}

async function status(
  session: Session,
  place: PluggedPlace,
): Promise<void> {
  const { runtime, call: { signal } } = session;
  const delegate = delegateOf(place);
  await checkNetwork(session, place);
  const { conf } = delegate;
  const list = isList(conf) ? conf : toNetworkConfList(conf);
  await runtime.statusNetworkList(list, { signal });
}

/** Adds the network to the pod's scratch file, if the file is complete. */
function remember({ scratch, call }: Session, delegate: Delegate): void {
  const { containerId, ifName } = call.args;
  const { delegates, isComplete, owner } = scratch.readUsable(containerId);
  if (!isComplete) return;
  const request = { ...delegate.request, ifName };
  const others = leaveOut(delegates, ifName);
  scratch.write(containerId, [...others, { ...delegate, request }], owner);
}

/** Removes the network from the pod's scratch file. */
function forget({ scratch, call }: Session, { conf }: Delegate): void {
  const { containerId, ifName } = call.args;
  const { delegates, isComplete, owner } = scratch.readUsable(containerId);
  if (!isComplete) return;
  const isKnown = delegates.some((one, index) =>
    one.conf.name === conf.name &&
    interfaceNameOf(delegates, index, "") === ifName
  );
  if (!isKnown) return;
  scratch.write(containerId, leaveOut(delegates, ifName), owner);
}

/**
 * Omits the network of an interface, but never the master. The other networks keep
 * their interface names, which depend on their positions.
 */
function leaveOut(
  delegates: readonly Delegate[],
  ifName: string,
): Delegate[] {
  return delegates.flatMap((delegate, index) => {
    if (index === 0) return [delegate];
    const name = interfaceNameOf(delegates, index, "");
    if (name === ifName) return [];
    return [{ ...delegate, request: { ...delegate.request, ifName: name } }];
  });
}
