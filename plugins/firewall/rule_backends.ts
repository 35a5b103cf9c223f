/**
 * The choice between the backends that are rules of the kernel.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { isLacking } from "../parts/firewall/iptables/find.ts";
import type { Backend } from "./backend.ts";

/** Both, loaded on use. The default comes first. */
export const ruleBackends = {
  iptables: async () => (await import("./iptables.ts")).iptablesBackend,
  nftables: async () => (await import("./nftables.ts")).nftablesBackend,
} as const satisfies Readonly<Record<string, () => Promise<Backend>>>;

/** Works with the first backend of rules that the host supports. */
export async function withRules(
  work: (backend: Backend) => Promise<void>,
): Promise<void> {
  try {
    return await work(await ruleBackends.iptables());
  } catch (error) {
    if (!isLacking(error)) throw error;
    try {
      return await work(await ruleBackends.nftables());
    } catch (second) {
      if (!isLacking(second)) throw second;
      const why = `${describeError(error)}; ${describeError(second)}`;
      throw new Error(why, { cause: second });
    }
  }
}
