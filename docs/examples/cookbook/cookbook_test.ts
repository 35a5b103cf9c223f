import { conformPlugin, runIn, type TestHosts } from "@cni/plugins/testing";
import { ceiling } from "./ceiling.ts";
import { gate } from "./gate.ts";
import { pool } from "./pool.ts";
import { redirects } from "./redirects.ts";
import { wire } from "./wire.ts";

/** The plugin that creates the interface for chained plugins. */
function ptp(hosts: TestHosts): Record<string, unknown> {
  return { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") };
}

conformPlugin(pool, ({ directory }) => [{
  type: "wire",
  ipam: { type: "pool", subnet: "10.1.2.0/24", directory: `${directory}/pool` },
}], {
  except: {
    "check-lease": "pool has no CHECK",
    "gc-other-network": "a directory is of one network",
  },
});

conformPlugin(wire, (hosts) => [{
  type: "wire",
  ipam: hosts.hostLocal("10.1.2.0/24", "fd00::/64"),
}], {
  except: {
    "check-address": "its CHECK looks at the link only",
    "check-down": "its CHECK looks at the link only",
  },
});

conformPlugin(redirects, (hosts) => [ptp(hosts), { type: "redirects" }], {
  state: ({ sandbox }) =>
    runIn(
      sandbox,
      "sh",
      "-c",
      "cat /proc/sys/net/ipv4/conf/*/accept_redirects",
    ),
});

conformPlugin(ceiling, (hosts) => [
  ptp(hosts),
  { type: "ceiling", bytesPerSecond: 125_000 },
]);

conformPlugin(gate, (hosts) => [
  ptp(hosts),
  { type: "gate", deny: ["169.254.0.0/16", "fe80::/10"] },
], {
  state: ({ host }) => runIn(host, "nft", "list", "ruleset"),
  except: { "gc-stale": "gate has no GC" },
});
