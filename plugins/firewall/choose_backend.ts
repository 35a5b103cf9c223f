/**
 * The choice between the backends.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import type { Backend, BackendName, FirewallHost } from "./backend.ts";
import { ruleBackends, withRules } from "./rule_backends.ts";

/** All backends, loaded on use. */
export const backends: Readonly<Record<BackendName, () => Promise<Backend>>> = {
  firewalld: async () => (await import("./firewalld.ts")).firewalldBackend,
  ...ruleBackends,
};

/**
 * Works with the configuration's backend. Without one it is firewalld if that
 * runs and this process may call it, otherwise iptables, as in the Go plugin, and
 * nftables if iptables cannot work on this host.
 *
 * @throws The error of the last backend that was tried
 */
export async function withBackend(
  host: FirewallHost,
  work: (backend: Backend) => Promise<void>,
): Promise<void> {
  if (host.backend !== undefined) return work(await backends[host.backend]());
  const { isDenied, isFirewalldRunning } = await import("./firewalld.ts");
  if (await isFirewalldRunning(host)) {
    try {
      return await work(await backends.firewalld());
    } catch (error) {
      if (!isDenied(error)) throw error;
      const problem = describeError(error);
      host.log.warn("Not using firewalld, which runs", { problem });
    }
  }
  await withRules(work);
}
