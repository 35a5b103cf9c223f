/**
 * Plugins that create their link on another one, its master: macvlan, ipvlan
 * and vlan.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { Rollback } from "../../../base/rollback.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { MaybePromise } from "../../../base/waiting.ts";
import type { Dns, Interface, Result } from "../../../cni/result/result.ts";
import type { NetConf } from "../../../cni/config/types.ts";
import { SyscallError } from "../../../ffi/errno.ts";
import { NetlinkError } from "../../../ffi/netlink/error.ts";
import type { KindData } from "../../../ffi/rtnl/link_kinds.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Mac } from "../../../net/mac.ts";
import { checkNotOfHost, requestedIpsOf } from "../address/free_ip.ts";
import {
  awaitDetection,
  configureInterface,
} from "../address/sandbox_addresses.ts";
import { createSandboxLink, resultOf } from "./sandbox_link.ts";
import { checkIfNameIsFree, openSandbox } from "../sandbox/sandbox.ts";

/** The keys that the plugins share; `on_master_schema.ts` has their schemas. */
export interface MasterConfig extends NetConf {
  /** Name of the master. */
  readonly master?: string | undefined;
  /** In bytes, at most the master's; 0 for the master's. */
  readonly mtu?: number | undefined;
  /** Whether the master is in the sandbox. */
  readonly linkInContainer?: boolean | undefined;
  /** False: IPv6 addresses are not checked for duplicates. Else as the kernel is set. */
  readonly enabledad?: boolean | undefined;
  /** Whether to ask the network about an address before the container uses it. */
  readonly conflictCheck?: boolean | undefined;
  readonly dns?: Dns | undefined;
}

/** The link that one plugin creates. */
export interface Planned {
  /** The kind of link, with its settings. */
  readonly info: KindData;
  /** Name of the master; the link of the default route if undefined or "". */
  readonly master?: string | undefined;
  /** The kernel chooses one if undefined. */
  readonly mac?: Mac | undefined;
  /** Returns addresses and routes, and registers how to release them. */
  readonly lease: (rollback: Rollback) => MaybePromise<Result>;
  /** Settings of the link to name in errors, such as its mode. */
  readonly details?: readonly (readonly [name: string, value: unknown])[];
  /** Prepares the host for the configured link. Returns the host's links. */
  readonly onHost?: (
    link: Link,
    lease: Result,
    rollback: Rollback,
  ) => Promise<Interface[]>;
  /** What refusals of the kernel mean, by errno, and what to do. */
  readonly reasons: Readonly<Record<string, string>>;
}

/**
 * ADD: creates the link in the sandbox and configures it.
 *
 * @throws {CniError} 4 if the interface's name is taken, 7 if the master does
 *   not exist, its MTU is smaller, or the call asks for an address of the host,
 *   or the IPAM plugin's error
 * @throws {Error} If the kernel refuses
 */
export async function attachToMaster(
  call: Call<MasterConfig>,
  planned: Planned,
): Promise<Result> {
  const { info, master, mac, lease: obtain } = planned;
  const { args, config } = call;
  using sandbox = openSandbox(args);
  using host = config.linkInContainer ? undefined : Rtnl.open(call.hostNetns);
  const place = host ?? sandbox;
  checkIfNameIsFree(sandbox, args.ifName);
  const lower = getMaster(place, master);
  const mtu = checkedMtu(config, lower);

  await using rollback = new Rollback(call.log);
  const settings = [["MAC", mac], ["MTU", mtu]] as const;
  const link = explained(
    planned,
    lower,
    settings,
    () =>
      createSandboxLink(place, { call, sandbox, rollback }, {
        info,
        lowerIndex: lower.index,
        mtu,
        mac,
      }),
  );
  const first = await obtain(rollback);
  // A VLAN is a network of its own.
  const isOnNetworkOfMaster = info.kind !== "vlan";
  if (host !== undefined && isOnNetworkOfMaster) {
    for (const ip of requestedIpsOf(first, call)) {
      checkNotOfHost(host, ip, [lower]);
    }
  }
  const detectsDuplicates = config.enabledad === false ? false : "default";
  await using checked = config.conflictCheck && config.ipam?.type
    ? await (await import("../address/conflict_check.ts")).findUnusedAddresses({
      call,
      sandbox,
      link,
      lease: first,
      ipv6: { detectsDuplicates },
      host: isOnNetworkOfMaster
        ? { rtnl: place, link: lower, hasSameMac: info.kind === "ipvlan" }
        : undefined,
    })
    : undefined;
  const lease = checked?.lease ?? first;
  const isChecked = checked?.isChecked && config.enabledad === undefined;
  explained(
    planned,
    lower,
    settings,
    () =>
      configureInterface(
        sandbox,
        link,
        lease,
        { detectsDuplicates },
        isChecked,
      ),
  );
  checked?.announce();
  if (detectsDuplicates && !isChecked) {
    await awaitDetection(sandbox, link, lease);
  }
  const onHost = await planned.onHost?.(link, lease, rollback) ?? [];
  rollback.commit();
  const { interfaces, ...result } = resultOf(call, link, lease);
  return {
    ...result,
    interfaces: [...interfaces, ...onHost],
    dns: config.dns ?? lease.dns,
  };
}

/** Runs `work`, and explains the kernel's refusal, which names nothing. */
function explained<T>(
  { reasons, details = [] }: Planned,
  lower: Link,
  more: readonly (readonly [name: string, value: unknown])[],
  work: () => T,
): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof CniError || !(error instanceof Error)) throw error;
    const { cause } = error;
    // EINVAL has many reasons, for some of which the kernel has a text.
    const isMtuRefused = cause instanceof NetlinkError &&
      cause.errno === "EINVAL" &&
      cause.extAck !== "";
    const reason = cause instanceof SyscallError && !isMtuRefused
      ? reasons[cause.errno]
      : undefined;
    const all = [...details, ...more]
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `, ${name} ${value}`).join("");
    throw new Error(`${error.message} on master "${lower.name}"${all}`, {
      cause: reason === undefined ? cause : new Error(reason, { cause }),
    });
  }
}

/** @throws {CniError} 7 if it does not exist */
function getMaster(place: Rtnl, name: string | undefined): Link {
  const link = name ? place.link.find(name) : findDefaultLink(place);
  if (link !== undefined) return link;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    name
      ? `failed to lookup master "${name}": Link not found`
      : "no default route interface found",
  );
}

/** Finds the link of the preferred default route, IPv4 first. */
function findDefaultLink(place: Rtnl): Link | undefined {
  const route = place.route.list().find(({ destination, ifindex }) =>
    destination.prefixLength === 0 && ifindex !== undefined
  );
  return route?.ifindex === undefined
    ? undefined
    : place.link.find(route.ifindex);
}

/**
 * Returns the link's MTU; undefined for the master's.
 *
 * @throws {CniError} 7 if it does not fit
 */
function checkedMtu(
  { mtu = 0 }: MasterConfig,
  lower: Link,
): number | undefined {
  if (mtu < 0 || mtu > lower.mtu) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `invalid MTU ${mtu}, must be [0, master MTU(${lower.mtu})]`,
    );
  }
  return mtu || undefined;
}

/** The kernel's modes by name; the first one is the default. */
export type Modes = Readonly<Record<string, number>>;

/** Returns the name of a mode or of a link's mode, or its number if it has none. */
export function nameOfMode(
  modes: Modes,
  of: number | Link,
): string | undefined {
  const mode = typeof of === "number"
    ? of
    : of.data !== undefined && "mode" in of.data
    ? of.data.mode
    : undefined;
  const row = Object.entries(modes).find(([, known]) => known === mode);
  return row?.[0] ?? mode?.toString();
}

/**
 * Returns the kernel's number of a mode.
 *
 * @throws {CniError} 7 if no mode has the name
 */
export function modeOf(
  kind: string,
  modes: Modes,
  name: string | undefined,
): number {
  const found = name
    ? Object.entries(modes).find(([known]) => known === name)?.[1]
    : Object.values(modes)[0];
  if (found !== undefined) return found;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `unknown ${kind} mode: ${JSON.stringify(name)}`,
  );
}
