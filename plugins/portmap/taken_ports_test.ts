/** Ports of containers that other backends forward. */

import { assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { MappedPorts, onePort, withPorts } from "./testing/mapped_ports.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const ONE = { hostPort: 8080, containerPort: 80, protocol: "tcp" };
const ADDRESSED = withPorts([{ ...ONE, hostIP: "192.0.2.1" }]);
const BACKENDS = ["nftables", "iptables"] as const;
const CONDITIONS = {
  nftables: { conditionsV4: ["ip", "saddr", "192.0.2.7"] },
  iptables: { conditionsV4: ["-s", "192.0.2.7"] },
};
const IPV4 = { addresses: ["10.1.2.6/24"] };

/** Mappings of a living container, those of another one, and what is refused. */
const ROWS: readonly (readonly [
  name: string,
  first: Keys,
  second: (backend: (typeof BACKENDS)[number]) => Keys,
  refused: string | undefined,
])[] = [
  ["the port", onePort(8080), () => onePort(8080), "8080/tcp"],
  ["of one address", ADDRESSED, () => ADDRESSED, "8080/tcp of 192.0.2.1"],
  ["another port", onePort(8080), () => onePort(8081), undefined],
  ["one address of all", onePort(8080), () => ADDRESSED, undefined],
  [
    "another protocol",
    onePort(8080),
    () => withPorts([{ ...ONE, protocol: "udp" }]),
    undefined,
  ],
  [
    "under a condition",
    onePort(8080),
    (backend) => CONDITIONS[backend],
    undefined,
  ],
];

rootTest(
  "portmap refuses a running container's port in the other backend",
  allOf(needsRuleTools, needsInetRules),
  async (t) => {
    const rows = ROWS.flatMap((row) =>
      BACKENDS.map((backend) => ({ row, backend }))
    );
    await eachRow(
      t,
      rows,
      async ({ row: [, first, second, text], backend }) => {
        using ports = new MappedPorts({ backend });
        const other = BACKENDS.find((one) => one !== backend);
        const path = `${ports.hosts.directory}/netns`;
        await Deno.symlink(ports.hosts.sandbox.path, path);
        const named = { env: { CNI_NETNS: path } };
        const config = { ...first, backend: other };
        const interfaces = [{ name: "eth0", sandbox: path }];
        const ips = [{ address: "10.1.2.5/24", interface: 0 }];
        const prevResult = { cniVersion: "1.0.0", interfaces, ips };
        await ports.succeed("ADD", { ...config, prevResult }, named);
        const state = (): unknown => [ports.table, ports.containerRules()];
        const before = state();
        const sandbox = ports.hosts.addNetns();
        const next = { containerId: "next", sandbox, ...IPV4 };
        const keys = second(backend);
        if (text !== undefined) {
          const refused = await ports.run("ADD", keys, next);
          assertFailure(refused, 11, `Host port ${text} is taken by another`);
          assertEquals(refused.json.details.includes("test-container"), true);
          assertEquals(state(), before);
          // A dead container keeps nothing.
          await Deno.remove(path);
        }
        await ports.succeed("ADD", keys, next);
        await ports.succeed("CHECK", keys, next);
      },
      ({ row: [name], backend }) => `${name}, by ${backend}`,
    );
  },
);

rootTest(
  "portmap moves a container's port to the other backend",
  allOf(needsRuleTools, needsInetRules),
  async (t) => {
    await eachRow(t, BACKENDS, async (backend) => {
      using ports = new MappedPorts();
      const other = BACKENDS.find((one) => one !== backend);
      await ports.succeed("ADD", { backend: other });
      await ports.succeed("ADD", { backend });
      await ports.succeed("CHECK", { backend });
      await ports.succeed("DEL", { backend });
      assertEquals([ports.table, ports.containerRules()], ["", []]);
    }, (backend) => `to ${backend}`);
  },
);
