/**
 * ADD: takes one address from each range.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import { checkOnePerFamily } from "../../cni/result/one_per_family.ts";
import { CLAIM_REFERENCE } from "../../cni/config/pod_evidence.ts";
import {
  emptyDns,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import { parseArgs } from "./args.ts";
import { Claimer } from "./claimer.ts";
import { podOwner } from "./record_owner.ts";
import { noPodName, type Session } from "./session.ts";
import {
  checkEnds,
  rangesOf,
  type Settings,
  type WhereaboutsCall,
} from "./settings.ts";

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
  const extra = listStatic(settings, call);
  checkOnePerFamily(
    [
      ...rangesOf(settings).map(({ cidr }) => cidr.family),
      ...extra.map(({ address }) => address.family),
    ],
    call.cniVersion,
  );
  const ips = await claimAll(session);
  const { routes = [], dns = emptyDns() } = settings;
  return { interfaces: [], ips: [...ips, ...extra], routes, dns };
}

async function claimAll(session: Session): Promise<IpConfig[]> {
  if (mayStay(session)) {
    const { hold } = await import("./holding.ts");
    const held = await hold(session);
    if (held !== undefined) return held;
  }
  const { settings, api, owner, signal, call: { log } } = session;
  const claimer = new Claimer({
    api,
    owner: podOwner({
      id: owner.containerId,
      podref: owner.podref,
      ifname: owner.ifName,
    }),
    networkName: settings.networkName,
    isOverlapping: settings.isOverlapping,
    signal,
    log,
  });
  try {
    const ips: IpConfig[] = [];
    for (const pool of await session.pools()) {
      const { ip } = await claimer.claim(pool);
      const address = Cidr.of(ip, pool.range.prefixLength);
      ips.push({ address, gateway: gatewayOf(settings, ip) });
    }
    writeReceipt(session, claimer);
    return ips;
  } catch (error) {
    await claimer.undo(session.spareApi());
    throw error;
  }
}

/** Reports whether the pod's addresses may belong to an IPAMClaim. */
function mayStay(
  { settings: { stay }, call: { config: { allowPersistentIPs, args } } }:
    Session,
): boolean {
  return Boolean(stay || allowPersistentIPs || args?.cni?.[CLAIM_REFERENCE]);
}

/** The gateway is for the addresses of its family. */
function gatewayOf({ gateway }: Settings, ip: Ip): Ip | undefined {
  return gateway?.family === ip.family ? gateway : undefined;
}

/** Without a receipt, DEL takes longer; that is all. */
function writeReceipt(
  { api, owner, receipts, call }: Session,
  { claims }: Claimer,
): void {
  if (claims.length === 0) return;
  try {
    receipts.write(owner, { namespace: api.namespace, claims });
  } catch (error) {
    call.log.warn("Cannot write a receipt", { error: describeError(error) });
  }
}

/**
 * Lists addresses that are configured, or requested by CNI_ARGS.
 *
 * @throws {CniError} 7 if a gateway is of the other family
 */
function listStatic(
  { addresses = [] }: Settings,
  { args }: WhereaboutsCall,
): IpConfig[] {
  const { ips, gateways } = parseArgs(args.args);
  for (const { address, gateway } of addresses) {
    if (gateway === undefined || gateway.family === address.family) continue;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `gateway ${gateway} of ${address} is no IPv${address.family} address`,
    );
  }
  return [
    ...addresses.map(({ address, gateway }) => ({ address, gateway })),
    ...ips.map((address) => ({
      address,
      gateway: gateways.find((gateway) => address.contains(gateway)),
    })),
  ];
}
