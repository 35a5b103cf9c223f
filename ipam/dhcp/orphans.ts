/**
 * Orphans of dhcp: leases of its daemon.
 *
 * @module
 */

import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { Ip } from "../../net/ip.ts";
import { isSameAttachment } from "../../cni/config/types.ts";
import { LeaseDirectory } from "./lease_directory.ts";

/** See {@linkcode PluginOrphans}. The state is next to the socket. */
export const orphans: PluginOrphans = {
  state: { key: "daemonSocketPath", usual: "/run/cni/dhcp.sock" },
  finders: [(search) => search.places.flatMap(findLeases(search))],
};

/**
 * The daemon releases leases itself while it runs; the remaining leases end when it
 * starts.
 */
function findLeases(
  { evidence }: OrphanSearch,
): (socket: string) => Orphan[] {
  return (socket) => {
    const directory = new LeaseDirectory(socket);
    return directory.list().flatMap((lease) => {
      const { containerId, ifName, network, netns, isReleased } = lease;
      const reason = isReleased ? undefined : evidence.findReason({
        container: containerId,
        netns,
        addresses: [Ip.parse(lease.address)],
      });
      if (reason === undefined) return [];
      return [{
        kind: "lease",
        where: `${directory.path}: ${lease.address} of ${ifName}`,
        container: containerId,
        network,
        ...reason,
        remove: () =>
          directory.markReleased((other) => isSameAttachment(other, lease)),
      }];
    });
  };
}
