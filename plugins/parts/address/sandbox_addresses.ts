/**
 * Addresses and routes of an interface in the sandbox that has neighbours on its
 * link: on a bridge, or on a shared link.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Rollback, TearDownStep } from "../../../base/rollback.ts";
import type { Call } from "../../../cni/plugin.ts";
import { isAnnouncementSuppressed } from "../../../cni/result/announcement.ts";
import { isLearned, withoutLearned } from "../../../cni/result/learned.ts";
import type { Result } from "../../../cni/result/result.ts";
import type { NetConf } from "../../../cni/config/types.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { disableAnnouncements, enableAnnouncements } from "./announce.ts";
import {
  addingAddress,
  addingRoute,
  bringingUp,
  checkRouteValues,
  kernelRoutesOf,
  makeChanges,
} from "../link/configure_link.ts";
import { ipamHas } from "../traits.ts";
import { enableIpv6, type Ipv6Options } from "./ipv6.ts";
import type { LinkEnd } from "../link/veth.ts";

const RELEASE = "release the addresses";

/** The part of a lease that an interface gets. */
export type Configured = Pick<Result, "ips" | "routes">;

/**
 * Requests addresses, and releases them if ADD fails.
 *
 * @throws {CniError} The IPAM plugin's error; 7 if it returns no address or an
 * invalid route
 */
export async function leaseAddresses(
  call: Pick<Call, "config" | "ipam" | "args" | "log">,
  rollback: Rollback,
  { mayBeEmpty = false }: { readonly mayBeEmpty?: boolean } = {},
): Promise<Result> {
  const lease = await call.ipam.add();
  releaseOnFailure(call, rollback);
  if (!mayBeEmpty) checkHasAddresses(lease);
  checkRouteValues(lease.routes);
  if (isAnnouncementSuppressed(lease)) {
    const { hideFromNeighbours } = await import("./hide_from_neighbours.ts");
    hideFromNeighbours(call, lease, rollback);
  }
  return lease;
}

/** Registers the release of the addresses if ADD fails, in the order of DEL. */
export function releaseOnFailure(
  call: Pick<Call, "config" | "ipam">,
  rollback: Rollback,
): void {
  const release = (): Promise<void> => call.ipam.del();
  if (asksOverLink(call.config)) rollback.onFailure(RELEASE, release);
  else rollback.onFailureLast(RELEASE, release);
}

/**
 * Reports whether the IPAM plugin communicates with a server over the container's
 * link.
 */
export function asksOverLink(config: Pick<NetConf, "ipam">): boolean {
  return ipamHas(config, "asks over link");
}

/**
 * Adds the release of the addresses to the steps of DEL. The link is deleted first:
 * once an address is allocated again, the old container must no longer answer for it.
 * So the addresses stay leased while the link cannot be deleted. An IPAM plugin that
 * communicates over the link also releases its lease over it.
 *
 * @param unlink The step that removes the link from the container
 */
export function withRelease(
  call: Pick<Call, "config" | "ipam">,
  steps: readonly TearDownStep[],
  unlink: TearDownStep,
): TearDownStep[] {
  const release = async (): Promise<void> => {
    if (call.config.ipam?.type) await call.ipam.del();
  };
  return asksOverLink(call.config)
    ? [[RELEASE, release], ...steps]
    : [...steps, [RELEASE, release, unlink]];
}

function checkHasAddresses({ ips }: Result): void {
  if (ips.length > 0) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "IPAM plugin returned missing IP config",
  );
}

/**
 * Prepares an interface for its addresses: once it is up, the kernel announces them,
 * unless another container still uses them.
 *
 * @throws {Error} If the kernel lacks IPv6, and an address is an IPv6 address
 */
export function prepareInterface(
  sandbox: Rtnl,
  { name }: LinkEnd,
  { ips }: Pick<Result, "ips">,
  { detectsDuplicates = false }: Ipv6Options = {},
): void {
  const prepare = isAnnouncementSuppressed({ ips })
    ? disableAnnouncements
    : enableAnnouncements;
  if (ips.length > 0) prepare(sandbox.netns, name);
  if (ips.some(({ address }) => address.family === 6)) {
    enableIpv6(sandbox.netns, name, { detectsDuplicates });
  }
}

/**
 * Adds addresses to an interface, brings it up and adds its routes. The kernel's
 * routes to the subnets are kept. Addresses and routes from the network are already
 * there.
 *
 * @param isChecked Whether it is known that no other machine uses the addresses
 * @throws {Error} If the kernel refuses
 */
export function configureInterface(
  sandbox: Rtnl,
  link: LinkEnd,
  lease: Configured,
  { detectsDuplicates = false }: Ipv6Options,
  isChecked = false,
): void {
  const { ips, routes } = withoutLearned(lease);
  const detects = isAnnouncementSuppressed({ ips }) ? false : detectsDuplicates;
  prepareInterface(sandbox, link, { ips }, { detectsDuplicates: detects });
  makeChanges(sandbox, [
    ...ips.map(({ address }) =>
      addingAddress(sandbox, link, {
        address,
        detectsDuplicates: Boolean(detects) && !isChecked,
      })
    ),
    bringingUp(sandbox, link),
    ...kernelRoutesOf({ ips, routes })
      .map((route) => addingRoute(sandbox, link, route)),
  ]);
}

/**
 * Waits until the kernel has checked every IPv6 address for duplicates, if it can
 * currently send the probes.
 *
 * @throws {Error} If a different host uses an address, or detection takes too long
 */
export async function awaitDetection(
  sandbox: Rtnl,
  link: LinkEnd,
  { ips }: Pick<Result, "ips">,
): Promise<void> {
  const addresses = ips.filter((ip) => !isLearned(ip))
    .map(({ address }) => address).filter(({ family }) => family === 6);
  if (addresses.length === 0 || isAnnouncementSuppressed({ ips })) return;
  if (!sandbox.link.get(link.index).isOperational) return;
  const { detectDuplicates } = await import("./duplicates.ts");
  await detectDuplicates(sandbox, link, addresses);
}
