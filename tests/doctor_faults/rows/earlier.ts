/**
 * Faults that tests of findings have, too, as far as they stop a packet.
 *
 * @module
 */

import { ATTACHMENTS_FAULTS } from "../../../cli/doctor/testing/faults/attachments.ts";
import { FORWARDING_FAULTS } from "../../../cli/doctor/testing/faults/forwarding.ts";
import { PACKETS_FAULTS } from "../../../cli/doctor/testing/faults/packets.ts";
import { type Control, ping, tcp } from "../controls.ts";
import { CACHE, DB, FAR, FAR6, NODE_PORT, WEB } from "../fault_node.ts";
import { all, type FaultRow, known, on } from "../row.ts";

const ALL = [...PACKETS_FAULTS, ...FORWARDING_FAULTS, ...ATTACHMENTS_FAULTS];

/** What each of them stops. */
const STOPS: Readonly<Record<string, Control>> = {
  "a rule of prerouting that drops a subnet": ping("db", FAR),
  "a rule that drops what a bridge sends": ping("db", FAR),
  "a rule of iptables' raw table that drops a container": ping("web", FAR),
  "a rule of routing that stops a container's packets": ping("db", FAR),
  "forwarding is off for one interface": ping("db", FAR),
  "a blackhole route to a container behind a bridge": ping("node", DB),
  "a bridge that does not answer ARP": ping("cache", "10.2.0.1"),
  "a container's address on the node": ping("db", FAR),
  "a local route to a bridge's subnet": ping("db", FAR),
  "a VPN's route to a part of a bridge's subnet": ping("node", DB),
  "a routing rule that leads to a VPN's table": ping("node", DB),
  "the routing rule of the main table is gone": ping("web", FAR),
  "a bridge's route is gone": ping("node", DB),
  "the node's output drops what goes to containers": ping("node", DB),
  "the node's input drops what comes from containers": tcp(
    "db",
    "10.2.0.1",
    NODE_PORT,
  ),
  "a rule that drops new connections": ping("web", FAR),
  "nothing is tracked": ping("web", FAR),
  "a chain that others jump to has connections not tracked": ping("web", FAR),
  "connections that iptables does not track": ping("web", FAR),
  "a policy of IPsec that drops what is forwarded": ping("web", FAR),
  "a rule that drops a set of private networks": ping("web", FAR),
  "a map of interfaces to chains that drop": ping("db", FAR),
  "a rule that drops TCP only": tcp("db", FAR),
  "a table of bridges that drops what they forward": ping("db", CACHE),
  "IPv4 is not forwarded": ping("web", FAR),
  "IPv6 is not forwarded": ping("web", FAR6),
  "a forward chain of nftables with policy drop": ping("web", FAR),
  "a forward chain of nftables that ends with drop": ping("web", FAR),
  "FORWARD of iptables-nft with policy drop": ping("web", FAR),
  "FORWARD of iptables-nft that ends with a rejection": ping("web", FAR),
  "FORWARD of iptables-legacy with policy drop": ping("web", FAR),
  "FORWARD of iptables-legacy that ends with a drop": ping("web", FAR),
  "a prerouting chain with policy drop": ping("db", FAR),
  "a route that is gone": ping("web", FAR),
  "an address that is gone": ping("db", FAR),
  "a masquerade that is gone": ping("web", FAR),
  "a bridge without its address": ping("node", DB),
  "a container's route on the node is gone": ping("node", WEB),
};

/** What names the cause on this node, which has more containers. */
const CAUSES: Readonly<Record<string, RegExp>> = {
  "forwarding is off for one interface": /conf\.lan0\.forwarding is 0/,
  "a bridge that does not answer ARP": /ARP is off on "lan0"/,
  "a table of bridges that drops what they forward": /bridge doctor c/,
  "IPv4 is not forwarded": /ip_forward is 0/,
  "a chain that others jump to has connections not tracked": /ip doctor inner/,
  "nothing is tracked": /inet doctor c/,
  "a prerouting chain with policy drop": /ip fw pre/,
};

/** What else is there once the fix was followed. */
const REST: Readonly<Record<string, string>> = {
  "FORWARD of iptables-legacy with policy drop": "iptables-legacy -F",
  "FORWARD of iptables-legacy that ends with a drop": "iptables-legacy -F",
};

/** Faults that tests of findings have, too, as far as they stop a packet. */
export const EARLIER: readonly FaultRow[] = Object.entries(STOPS)
  .map(([name, fails]) => {
    const { seed, ...row } = known(ALL, name);
    const rest = REST[name];
    return {
      ...row,
      cause: CAUSES[name] ?? row.cause,
      fails,
      seed: rest === undefined ? seed : all(on("node", "true", rest), seed),
    };
  });
