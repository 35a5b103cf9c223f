/**
 * The `k8s.v1.cni.cncf.io/network-status` annotation of a pod.
 *
 * `default` marks the interface on the cluster's own network, which other programs
 * treat as the pod's first interface. It does not refer to the default route, which
 * `gateway` contains, including requested default routes if the status is built from
 * the edited result.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 5; network-attachment-definition-client pkg/utils/net-attach-def.go
 * `CreateNetworkStatuses`.
 *
 * @module
 */

import { type JsonObject, omitAbsent } from "../../../base/json/json.ts";
import type {
  Dns,
  Interface,
  IpConfig,
  Result,
} from "../../../cni/result/result.ts";
import { isInMain } from "../../../cni/result/route.ts";
import type { Delegate } from "../model/delegate.ts";
import { escapeAsGo } from "../../../base/json/json_bytes.ts";

/** The annotation. Source: Network Custom Resource Definition De-facto Standard 1.3. */
export const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** An interface, with the keys in the order of the output. */
export interface NetworkStatus {
  /** The network, see {@linkcode Delegate.name}. */
  readonly name: string;
  /** The interface in the sandbox. */
  readonly interface?: string;
  /** Addresses, without their prefix lengths. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  /** The MTU in bytes. */
  readonly mtu?: number;
  /** Whether this is the pod's interface on the cluster's own network. */
  readonly default?: true;
  /** Name resolution of the network; often empty. */
  readonly dns: Partial<Dns>;
  /** The device information file's content. */
  readonly "device-info"?: JsonObject;
  /** Gateways of default routes. */
  readonly gateway?: readonly string[];
}

/** The input of a status. */
export interface NetworkStatusSource {
  readonly delegate: Pick<Delegate, "name">;
  /** Whether the network is the cluster's own. */
  readonly isMaster: boolean;
  /** The result of ADD, with the current default routes. */
  readonly result: Result;
  /** The device information file's content, if it exists. */
  readonly deviceInfo?: JsonObject | undefined;
}

/**
 * Builds the status of an attachment: an entry for each interface in the sandbox. A
 * result with a single interface has one entry, wherever that interface is; a result
 * without interfaces, as before 0.3.0, has no entry.
 */
export function buildNetworkStatus(
  { delegate, isMaster, result, deviceInfo }: NetworkStatusSource,
): NetworkStatus[] {
  const inSandbox = result.interfaces.filter(({ sandbox }) => sandbox);
  const main = isMaster ? findMainInterface(result, inSandbox) : undefined;
  return listParts(result, inSandbox).map(({ link, ips }) =>
    omitAbsent<NetworkStatus>({
      name: delegate.name,
      interface: link?.name || undefined,
      ips: unlessEmpty(ips.map(({ address }) => address.ip.toString())),
      mac: link?.mac,
      mtu: link?.mtu,
      default: isMaster && link === main ? true : undefined,
      dns: describeDns(result.dns),
      "device-info": deviceInfo,
      gateway: unlessEmpty(listGateways(result)),
    })
  );
}

/** The subject of an entry. */
interface StatusPart {
  /** The interface; undefined if the result contains none in the sandbox. */
  readonly link: Interface | undefined;
  readonly ips: readonly IpConfig[];
}

function listParts(
  { interfaces, ips }: Result,
  inSandbox: readonly Interface[],
): StatusPart[] {
  if (interfaces.length > 1) {
    return inSandbox.map((link) => ({
      link,
      ips: ips.filter((ip) =>
        (ip.interface === undefined
          ? inSandbox.at(-1)
          : interfaces[ip.interface]) === link
      ),
    }));
  }
  return interfaces.length === 0 ? [] : [{ link: inSandbox[0], ips }];
}

/**
 * Finds the pod's first interface on the cluster's own network: the interface whose
 * address comes with a router, even outside the sandbox; otherwise the first
 * interface.
 */
function findMainInterface(
  { interfaces, ips }: Result,
  inSandbox: readonly Interface[],
): Interface | undefined {
  const routed = ips.find(({ gateway, interface: index }) =>
    gateway !== undefined && index !== undefined
  );
  return routed ? interfaces[routed.interface ?? -1] : inSandbox[0];
}

/** Lists the gateways of default routes in table main. */
function listGateways({ routes }: Result): string[] {
  return routes
    .filter((route) => route.dst.prefixLength === 0 && isInMain(route))
    .flatMap(({ gw }) => gw?.toString() ?? []);
}

function describeDns(
  { nameservers, domain, search, options }: Dns,
): Partial<Dns> {
  return omitAbsent<Partial<Dns>>({
    nameservers: unlessEmpty(nameservers),
    domain: domain || undefined,
    search: unlessEmpty(search),
    options: unlessEmpty(options),
  });
}

function unlessEmpty<T>(items: readonly T[]): readonly T[] | undefined {
  return items.length === 0 ? undefined : items;
}

/**
 * Formats the annotation's value exactly like the reference: entries indented by
 * 4 spaces, in brackets, separated by commas only.
 *
 * Source: network-attachment-definition-client pkg/utils/net-attach-def.go
 * `SetNetworkStatus`; Go encoding/json, which escapes HTML characters.
 */
export function formatNetworkStatus(
  statuses: readonly NetworkStatus[],
): string {
  const texts = statuses.map((status) =>
    escapeAsGo(JSON.stringify(status, null, 4))
  );
  return `[${texts.join(",")}]`;
}
