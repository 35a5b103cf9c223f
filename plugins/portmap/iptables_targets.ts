/**
 * Where ports of iptables lead.
 *
 * @module
 */

import type { Ip } from "../../net/ip.ts";
import { eachIptables } from "../parts/firewall/iptables/places.ts";
import { failureOf, runIptables } from "../parts/firewall/iptables/program.ts";
import type { PortmapHost } from "./backend.ts";
import { readPorts } from "./iptables_rules.ts";
import { IPTABLES_HOSTPORTS as HOSTPORTS } from "./mapping.ts";

/**
 * Lists the IPv4 addresses to which iptables forwards ports, including ports of
 * the Go plugin.
 *
 * @throws {Error} With the program's output
 */
export async function listTargets(
  { backend, ...host }: PortmapHost,
): Promise<Ip[]> {
  const isNamed = backend === "iptables";
  const place = { ...host, isNamed, table: "nat" } as const;
  const targets: Ip[] = [];
  await eachIptables(place, [HOSTPORTS], async (iptables) => {
    if (iptables.family !== 4) return;
    const listed = await runIptables(iptables, ["-S"]);
    if (!listed.success) throw failureOf(iptables, listed);
    const rules = listed.stdout.split("\n")
      .filter((line) => line.startsWith("-A CNI-DN-"));
    targets.push(...readPorts({ rules }).map(({ target }) => target));
  });
  return targets;
}
