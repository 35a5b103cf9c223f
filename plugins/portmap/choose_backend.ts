/**
 * The choice between the backends.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";
import { isLacking } from "../parts/firewall/iptables/find.ts";
import type { Backend, PortmapHost } from "./backend.ts";
import type { BackendName } from "./schema.ts";

/** All backends, loaded on use. The default comes first. */
export const backends: Readonly<Record<BackendName, () => Promise<Backend>>> = {
  iptables: async () => (await import("./iptables.ts")).iptablesBackend,
  nftables: async () => (await import("./nftables.ts")).nftablesBackend,
};

/**
 * Returns the configuration's backend. Without one it is iptables, as in the Go
 * plugin, unless iptables cannot work on this host and nftables can.
 *
 * @param families Of the container's addresses; IPv4 if undefined
 */
export async function chooseBackend(
  host: PortmapHost,
  families?: readonly IpFamily[],
): Promise<BackendName> {
  if (host.backend !== undefined) return host.backend;
  const canWork = (name: BackendName): Promise<boolean> =>
    works(name, host, families);
  if (await canWork("iptables")) return "iptables";
  return await canWork("nftables") ? "nftables" : "iptables";
}

async function works(
  name: BackendName,
  host: PortmapHost,
  families: readonly IpFamily[] | undefined,
): Promise<boolean> {
  try {
    await (await backends[name]()).status(host, families);
    return true;
  } catch (error) {
    return !isLacking(error);
  }
}
