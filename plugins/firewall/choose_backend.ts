/**
 * The choice between the backends.
 *
 * @module
 */

import type { Backend, BackendName, FirewallHost } from "./backend.ts";
import { ruleBackends, withRules } from "./rule_backends.ts";

/** All backends, loaded on use. */
export const backends: Readonly<Record<BackendName, () => Promise<Backend>>> = {
  firewalld: async () => (await import("./firewalld.ts")).firewalldBackend,
  ...ruleBackends,
};

/**
 * Works with the configuration's backend. Without one it is firewalld if that
 * runs, otherwise iptables, as in the Go plugin, and nftables if iptables
 * cannot work on this host.
 *
 * @throws The error of the last backend that was tried
 */
export async function withBackend(
  host: FirewallHost,
  work: (backend: Backend) => Promise<void>,
): Promise<void> {
  if (host.backend !== undefined) return work(await backends[host.backend]());
  const { isFirewalldRunning } = await import("./firewalld.ts");
  if (await isFirewalldRunning(host)) {
    return await work(await backends.firewalld());
  }
  await withRules(work);
}
