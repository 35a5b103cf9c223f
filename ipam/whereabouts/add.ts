/**
 * ADD: takes one address from each range.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import {
  checkGatewayFamily,
  checkOnePerFamily,
} from "../../cni/result/one_per_family.ts";
import type { Conflict } from "../../cni/config/conflicts.ts";
import { CONFLICTS } from "../../cni/config/types.ts";
import { CLAIM_REFERENCE } from "../../kube/pod_evidence.ts";
import {
  emptyDns,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import { ConflictError } from "./claims/errors.ts";
import { type ClaimedAddress, Claimer } from "./claims/claimer.ts";
import type { Pool } from "./pools.ts";
import { contains } from "./range.ts";
import { podOwner } from "./record_owner.ts";
import {
  noPodName,
  parsePodArgs,
  type Session,
  writeAllocationFile,
} from "./session.ts";
import { checkEnds, rangesOf, type Settings } from "./settings.ts";

/**
 * Takes an attachment's addresses: all of them, or none.
 *
 * @throws {CniError} 4 without a pod, 7 if the configuration is invalid, 11 if
 *   no address is free
 * @throws {KubeError}
 */
export async function allocate(session: Session): Promise<Result> {
  const { call, settings } = session;
  if (session.owner.podref === "") throw noPodName();
  checkEnds(settings);
  const requested = parsePodArgs(call.args.args).ips;
  const extra = listStatic(session, requested);
  checkOnePerFamily(
    [
      ...rangesOf(settings).map(({ cidr }) => cidr.family),
      ...extra.map(({ address }) => address.family),
    ],
    call.cniVersion,
  );
  const ips = await claimAll(session, requested);
  const { routes = [], dns = emptyDns() } = settings;
  return { interfaces: [], ips: [...ips, ...extra], routes, dns };
}

/**
 * @param requested The requested addresses that are in the ranges are taken
 * from there
 */
async function claimAll(
  session: Session,
  requested: readonly Cidr[],
): Promise<IpConfig[]> {
  if (mayHaveClaim(session)) {
    const { allocateByClaim } = await import("./claims/add.ts");
    const ips = await allocateByClaim(session);
    if (ips !== undefined) return ips;
  }
  const { settings, api, owner, signal, call: { log } } = session;
  const pools = await session.pools();
  const conflicts = await setConflictsAside(session, requested, pools);
  const claimer = new Claimer({
    api,
    owner: podOwner({
      id: owner.containerId,
      podref: owner.podref,
      ifname: owner.ifName,
    }),
    networkName: settings.networkName,
    isOverlapping: settings.isOverlapping,
    isUsed: (ip) => conflicts.some((one) => one.ip.equals(ip)),
    signal,
    log,
  });
  try {
    const ips: IpConfig[] = [];
    for (
      const [pool, wanted] of chooseRequested(session, requested, pools)
    ) {
      const { ip } = await claimRequested(claimer, pool, wanted);
      const address = Cidr.of(ip, pool.range.prefixLength);
      ips.push({ address, gateway: gatewayOf(settings, ip) });
    }
    const { claims } = claimer;
    if (claims.length > 0) writeAllocationFile(session, { claims });
    return ips;
  } catch (error) {
    await claimer.undo(session.spareApi());
    throw error;
  }
}

/**
 * Sets addresses of other machines aside, if the call replaces addresses. A requested
 * address is not replaced.
 */
async function setConflictsAside(
  session: Session,
  requested: readonly Cidr[],
  pools: readonly Pool[],
): Promise<readonly Conflict[]> {
  const { config } = session.call;
  if (!(CONFLICTS in config)) return [];
  const { decodeConflicts, setAside } = await import("./set_aside.ts");
  const conflicts = decodeConflicts(config).filter(({ ip }) =>
    !requested.some((one) => one.ip.equals(ip))
  );
  await setAside(session, pools, conflicts);
  return conflicts;
}

/**
 * Assigns each requested address to the pool that allocates it. Upstream whereabouts
 * adds the address to the result without allocating it, even if a different pod has it.
 *
 * @throws {CniError} 7 if a requested address of a range is not handed out
 */
function chooseRequested(
  { settings }: Session,
  requested: readonly Cidr[],
  pools: readonly Pool[],
): [pool: Pool, wanted: Ip | undefined][] {
  const left = requested.map(({ ip }) => ip)
    .filter((ip) => isOfRange(settings, ip));
  const chosen = pools.map((pool): [Pool, Ip | undefined] => {
    const index = left.findIndex((ip) => contains(pool.range, ip));
    return [pool, index < 0 ? undefined : left.splice(index, 1)[0]];
  });
  const [other] = left;
  if (other === undefined) return chosen;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot allocate the requested address ${other}: its range does not allocate ` +
      "it, or allocates a different address to the pod",
  );
}

/** Reports whether an address is in the network of a range, even outside its limits. */
function isOfRange(settings: Settings, ip: Ip): boolean {
  return rangesOf(settings).some(({ cidr }) => cidr.contains(ip));
}

async function claimRequested(
  claimer: Claimer,
  pool: Pool,
  wanted: Ip | undefined,
): Promise<ClaimedAddress> {
  try {
    return await claimer.claim(pool, wanted);
  } catch (error) {
    if (wanted === undefined || !(error instanceof ConflictError)) throw error;
    throw new CniError(
      error.code,
      `Cannot allocate the requested address ${wanted}: ${error.why}`,
    );
  }
}

/** Reports whether the pod's addresses may belong to an IPAMClaim. */
function mayHaveClaim(
  { settings: { stay }, call: { config: { allowPersistentIPs, args } } }:
    Session,
): boolean {
  return Boolean(stay || allowPersistentIPs || args?.cni?.[CLAIM_REFERENCE]);
}

/** The gateway is for the addresses of its family. */
function gatewayOf({ gateway }: Settings, ip: Ip): Ip | undefined {
  return gateway?.family === ip.family ? gateway : undefined;
}

/**
 * Lists addresses that are configured, or requested outside the ranges.
 *
 * @throws {CniError} 7 if a gateway is of the other family
 */
function listStatic(
  { settings, call }: Session,
  requested: readonly Cidr[],
): IpConfig[] {
  const { gateways } = parsePodArgs(call.args.args);
  const { addresses = [] } = settings;
  for (const { address, gateway } of addresses) {
    checkGatewayFamily(address, gateway);
  }
  return [
    ...addresses.map(({ address, gateway }) => ({ address, gateway })),
    ...requested.filter(({ ip }) => !isOfRange(settings, ip))
      .map((address) => ({
        address,
        gateway: gateways.find((gateway) => address.contains(gateway)),
      })),
  ];
}
