/**
 * Waits for duplicate address detection, if enabled.
 *
 * @module
 */

import { JoinedSignal } from "../../../base/deadline.ts";
import { pollUntil } from "../../../base/waiting.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { listAddresses } from "../link/configure_link.ts";
import type { LinkEnd } from "../link/veth.ts";

/** Time limit of duplicate address detection, in ms. */
const DETECTION_TIMEOUT_MS = 5_000;

/**
 * Waits until the kernel has checked every IPv6 address for duplicates.
 *
 * @throws {Error} If a different host uses an address, or detection takes too long
 */
export async function detectDuplicates(
  sandbox: Rtnl,
  link: LinkEnd,
  addresses: readonly Cidr[],
): Promise<void> {
  if (!addresses.some(({ family }) => family === 6)) return;
  const isDone = (): true | undefined => {
    const present = listAddresses(sandbox, link)
      .filter((one) => addresses.some((other) => other.equals(one.address)));
    const duplicate = present.find(({ hasDadFailed }) => hasDadFailed);
    if (duplicate !== undefined) {
      throw new Error(
        `Cannot add address ${duplicate.address} to "${link.name}": another host has it`,
      );
    }
    return present.some(({ isTentative }) => isTentative) ? undefined : true;
  };
  using limit = new JoinedSignal(DETECTION_TIMEOUT_MS);
  await pollUntil(isDone, {
    signal: limit.signal,
    giveUp: () =>
      new Error(
        `Cannot determine whether another host has an address of "${link.name}"`,
      ),
  });
}
