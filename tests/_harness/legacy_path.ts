/**
 * Hosts whose iptables is the legacy variant.
 *
 * @module
 */

import type { TestHosts } from "../../testing/test_hosts.ts";

/** Makes a directory, and returns PATH of a host whose iptables is legacy. */
export function legacyPath({ directory }: TestHosts): { PATH: string } {
  const PATH = `${directory}/legacy`;
  Deno.mkdirSync(PATH);
  for (const family of ["iptables", "ip6tables"]) {
    for (const suffix of ["", "-restore"]) {
      Deno.symlinkSync(
        "/usr/sbin/xtables-legacy-multi",
        `${PATH}/${family}${suffix}`,
      );
    }
  }
  return { PATH };
}
