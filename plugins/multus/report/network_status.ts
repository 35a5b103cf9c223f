/**
 * What the `k8s.v1.cni.cncf.io/network-status` annotation says of a pod's
 * attachments.
 *
 * `default` marks the interface of the cluster's own network, which others take
 * for the pod's first one. Where packets leave to is not its business: that is
 * what `gateway` tells, also after a pod has asked for another default route,
 * if the result that a status is built from is the edited one.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 5; network-attachment-definition-client pkg/utils/net-attach-def.go
 * `CreateNetworkStatuses`.
 *
 * @module
 */

import { type JsonObject, omitAbsent } from "../../../cni/json.ts";
import type { Dns, Interface, IpConfig, Result } from "../../../cni/result.ts";
import type { Delegate } from "../networks/delegate.ts";

/** One interface, with the keys in the order in which they are printed. */
export interface NetworkStatus {
  /** The network, as {@linkcode Delegate.name}. */
  readonly name: string;
  /** The interface in the sandbox. */
  readonly interface?: string;
  /** Addresses, without their prefix lengths. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  /** In bytes. */
  readonly mtu?: number;
  /** It is the pod's interface on the cluster's own network. */
  readonly default?: true;
  /** What the network has to say of name resolution; often nothing. */
  readonly dns: Partial<Dns>;
  /** The device information file's content. */
  readonly "device-info"?: JsonObject;
  /** Routers of default routes. */
  readonly gateway?: readonly string[];
}

/** What a status is built from. */
export interface NetworkStatusSource {
  readonly delegate: Pick<Delegate, "name">;
  /** Whether the network is the cluster's own. */
  readonly isMaster: boolean;
  /** What ADD came to, with the default routes that there are now. */
  readonly result: Result;
  /** The device information file's content, if there is one. */
  readonly deviceInfo?: JsonObject | undefined;
}

/**
 * Builds the status of one attachment: an entry for each interface in the
 * sandbox. A result that names a single interface has one entry, wherever that
 * is; one that names none, as those before 0.3.0, has no entry.
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

/** What one entry is about. */
interface StatusPart {
  /** Undefined if the result names none in the sandbox. */
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
 * Finds the pod's first interface among those of the cluster's own network: the
 * one whose address comes with a router, which may be outside the sandbox, else
 * the first.
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

/** Lists the routers of default routes, of those that name one. */
function listGateways({ routes }: Result): string[] {
  return routes.filter(({ dst }) => dst.prefixLength === 0)
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
 * Formats the annotation's value to the byte as the reference does: entries
 * indented by 4 spaces, in brackets, without anything between them but commas.
 *
 * Source: network-attachment-definition-client pkg/utils/net-attach-def.go
 * `SetNetworkStatus`; Go encoding/json, which escapes what HTML gives a meaning.
 */
export function formatNetworkStatus(
  statuses: readonly NetworkStatus[],
): string {
  const texts = statuses.map((status) =>
    JSON.stringify(status, null, 4).replace(/[<>&\u2028\u2029]/g, escape)
  );
  return `[${texts.join(",")}]`;
}

function escape(character: string): string {
  const code = character.charCodeAt(0).toString(16);
  return `\\u${code.padStart(4, "0")}`;
}
