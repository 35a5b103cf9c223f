/** ADD that fails at any single step: nothing may be left. */

import type { NetNs } from "../../ffi/netns.ts";
import type { Table } from "../../ffi/nftables/change.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import {
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";

class PtpScene extends PluginScene implements FaultScene {
  constructor(ipMasqBackend: string) {
    super("ptp", (hosts) => ({
      ...dualStack(hosts),
      ipMasq: true,
      ipMasqBackend,
    }));
  }

  override get state(): unknown {
    return [super.state, listMasquerades(this.hosts.host)];
  }
}

const TABLES: readonly Table[] = [
  { family: "inet", name: "cni_plugins_masquerade" },
  { family: "ip", name: "nat" },
  { family: "ip6", name: "nat" },
];

/** Lists the masquerade's chains, with the number of their rules. */
function listMasquerades({ path }: NetNs): unknown[] {
  using nftables = Nftables.open(path);
  return TABLES.flatMap((table) =>
    nftables.listChains(table).map((chain) => [
      chain,
      nftables.listRules(table, chain.name).length,
    ])
  );
}

for (const backend of ["nftables", "iptables"]) {
  testFaultsOfAdd("ptp", ` (${backend})`, {
    make: () => new PtpScene(backend),
    // The links of both ends, four addresses, six routes, two leases, ...
    atLeast: 21,
    optional:
      /^write .*\/net\/ipv6\/conf\/(eth0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down)$/,
  });
}
