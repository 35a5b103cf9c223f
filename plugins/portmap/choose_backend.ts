/**
 * The choice between the backends.
 *
 * @module
 */

import { isLacking } from "../parts/iptables/find.ts";
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
 */
export async function chooseBackend(host: PortmapHost): Promise<BackendName> {
  if (host.backend !== undefined) return host.backend;
  if (await canWork("iptables", host)) return "iptables";
  return await canWork("nftables", host) ? "nftables" : "iptables";
}

async function canWork(name: BackendName, host: PortmapHost): Promise<boolean> {
  try {
    await (await backends[name]()).status(host);
    return true;
  } catch (error) {
    return !isLacking(error);
  }
}
