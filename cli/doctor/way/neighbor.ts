/**
 * Whether the next router has told its MAC, as the kernel remembers it.
 *
 * @module
 */

import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../../ffi/rtnl/neighbor.ts";
import type { Ip } from "../../../net/ip.ts";
import { ends, type Outcome } from "./trip.ts";

/** Looks for the MAC of a neighbour, to which something was sent just now. */
export function findNeighbor(
  rtnl: Rtnl,
  destination: Ip,
  { link, inNetns }: {
    readonly link: string;
    /** Writes a command as it runs in the namespace. */
    inNetns(command: string): string;
  },
): Outcome | undefined {
  const known = new NeighborRequests(rtnl.socket)
    .list({ family: destination.family })
    .find(({ ip }) => ip.equals(destination));
  // Without an entry, nobody asked.
  if (known === undefined || known.mac !== undefined) {
    return undefined;
  }
  return ends(
    `the gateway ${destination} does not tell its MAC on "${link}"`,
    {
      advice: "look at the gateway, and at what is between it and the link",
      look: inNetns("ip neighbour"),
    },
  );
}
