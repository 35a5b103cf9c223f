/**
 * ADD and CHECK with IPv6 addresses, alone or together with an IPv4 address.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { pollUntil } from "../../base/waiting.ts";
import { markLearned } from "../../cni/result/learned.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Call } from "../../cni/plugin.ts";
import { isAtLeast } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { routerStateOf } from "../../ffi/rtnl/router_discovery.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import {
  acceptRouters,
  listRouters,
} from "../../plugins/parts/address/router_advertisements.ts";
import { openSandbox } from "../../plugins/parts/sandbox/sandbox.ts";
import type { Lease, LeaseFamily } from "./lease.ts";
import { resultOf4 } from "./result4.ts";
import { resultOf6 } from "./result6.ts";
import type { DhcpConfig } from "./schema.ts";

const ANYWHERE = Cidr.parse("::/0");
/** Longest wait for a router once there are leases, in ms. */
const ROUTER_MS = 5000;

/**
 * Prepares the interface for IPv6, and gets the leases.
 *
 * @param askFor Gets the lease of a family
 * @throws {CniError} 1 if the version has no place for the mark of an address; the
 *   daemon's
 */
export async function addWithIpv6(
  call: Call<DhcpConfig>,
  families: readonly LeaseFamily[],
  askFor: (family: LeaseFamily) => Promise<Lease>,
): Promise<Result> {
  if (!isAtLeast(call.cniVersion, "0.3.0")) {
    throw new CniError(
      ErrorCode.IncompatibleVersion,
      `dhcp with IPv6 needs cniVersion 0.3.0, not ${call.cniVersion}`,
    );
  }
  using sandbox = openSandbox(call.args);
  const link = getLink(sandbox, call);
  const { defaultRoute = true } = call.config.ipam ?? {};
  const trust = { addresses: false, defaultRoute };
  acceptRouters(sandbox.netns, link.name, trust);
  const results = (await Promise.all(families.map(askFor)))
    .map((lease) => lease.family === 6 ? resultOf6(lease) : resultOf4(lease));
  const routers = await findRouters(call, sandbox, link);
  const [gateway] = routers;
  return {
    interfaces: [],
    ips: results.flatMap(({ ips }) => ips)
      .map((ip) => ip.address.family === 6 ? { ...ip, gateway } : ip),
    routes: [
      ...results.flatMap(({ routes }) => routes),
      ...routers.map((gw) => markLearned({ dst: ANYWHERE, gw })),
    ],
    dns: {
      nameservers: results.flatMap(({ dns }) => dns.nameservers),
      domain: results.find(({ dns }) => dns.domain !== "")?.dns.domain ?? "",
      search: [...new Set(results.flatMap(({ dns }) => dns.search))],
      options: [],
    },
  };
}

/** Lists the addresses of the interface. */
export function listAddresses(call: Call<DhcpConfig>): Ip[] {
  using sandbox = openSandbox(call.args);
  const { index: ifindex } = getLink(sandbox, call);
  return sandbox.address.list({ ifindex })
    .filter(({ hasDadFailed }) => !hasDadFailed)
    .map(({ address }) => address.ip);
}

/** @throws {CniError} 999 if the plugin of the interface has not created it */
function getLink(sandbox: Rtnl, { args: { ifName, netns } }: Call): Link {
  const link = sandbox.link.find(ifName);
  if (link !== undefined) return link;
  throw new CniError(
    ErrorCode.Internal,
    `error looking up "${ifName}": no such link in "${netns}"`,
  );
}

/** Waits for a router, which DHCPv6 does not name. */
async function findRouters(
  call: Call<DhcpConfig>,
  sandbox: Rtnl,
  link: Link,
): Promise<Ip[]> {
  const { signal, context: { yieldDuring = (wait) => wait() } } = call;
  using limit = new JoinedSignal(ROUTER_MS, signal);
  const isThere = (): true | undefined =>
    routerStateOf(sandbox.socket, link.index).isAdvertised || undefined;
  const giveUp = (): Error => new Error("no router advertisement arrived");
  try {
    await yieldDuring(() =>
      pollUntil(isThere, { signal: limit.signal, giveUp })
    );
  } catch (error) {
    call.log.warn("The container has no IPv6 routes", { error: `${error}` });
  }
  return listRouters(sandbox, link);
}
