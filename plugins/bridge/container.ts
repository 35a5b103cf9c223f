/**
 * The container's end of the veth pair.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { settleVeth, type Veth } from "../parts/link/veth.ts";

/** Time limit for the bridge's port to start forwarding, in ms. */
const PORT_TIMEOUT_MS = 2_500;

/**
 * Waits until the bridge's port forwards. Most kernels report that at once,
 * some take a little longer.
 *
 * @returns Both ends
 * @throws {Error} If the port does not start forwarding in time
 */
export async function settlePort(
  host: Rtnl,
  sandbox: Rtnl,
  veth: Veth,
): Promise<Veth<Link>> {
  const ends = settleVeth(host, sandbox, veth);
  if (ends.host.isOperational) return ends;
  const { pollUntil } = await import("../../base/waiting.ts");
  using limit = new JoinedSignal(PORT_TIMEOUT_MS);
  return await pollUntil(() => {
    const ends = settleVeth(host, sandbox, veth);
    return ends.host.isOperational ? ends : undefined;
  }, {
    signal: limit.signal,
    giveUp: () => new Error("bridge port in error state: down"),
  });
}
