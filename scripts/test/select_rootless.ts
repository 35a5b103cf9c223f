/**
 * Says which test files are run in a user namespace, too.
 *
 * @module
 */

import type { TestFile } from "./plan.ts";

const ROWS = /^tests\/conformance\//;

/** What the gate runs: of plugins that ask the kernel for more than a file. */
const CORE =
  /^tests\/(?:masquerade_hosts|conformance\/(?:bridge|dummy|firewall|flannel|ipvlan|loopback|macvlan|masquerade|portmap|portmap_iptables|ptp|sbr|tap|tuning|vlan|vrf))_test\.ts$/;

/**
 * Filters the tests of the gate's part: rows for the newest version of the
 * specification, and rules by the legacy iptables.
 */
export const ROOTLESS_FILTER = String
  .raw`/^conformance .*(?:, 1\.1\.0|[^.].|.[^0-9])$|with iptables-legacy and nobody/`;

/**
 * Filters the files that are run there.
 *
 * @param isAll Whether all conformance rows are, or those of the gate
 */
export function selectRootless(
  files: readonly TestFile[],
  isAll: boolean,
): string[] {
  return files.map(({ path }) => path)
    .filter((path) => CORE.test(path) || isAll && ROWS.test(path));
}
