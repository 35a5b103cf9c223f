/** bandwidth behind the plugins that connect containers: ours, and the Go ones. */

import { assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { assertSuccess, hostLimits, WIDE } from "./_harness/limited_cable.ts";
import { listPeers, nameOf, succeedAs, type Who } from "./_harness/parity.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { eachRow } from "./_harness/table.ts";

type Run = (command: string, config: object) => Promise<CallOutput>;

/** Which of the two is asked to detach the container first. */
const ORDERS = ["bandwidth first", "bandwidth last"] as const;

async function attachAndDetach(
  type: string,
  who: Who,
  cniVersion: string,
  order: typeof ORDERS[number],
): Promise<void> {
  using hosts = TestHosts.create();
  const runMain: Run = (command, config) =>
    succeedAs(who, hosts, { type, command, config });
  const config = {
    cniVersion,
    name: "net1",
    type,
    bridge: "br0",
    isGateway: true,
    ipam: hosts.hostLocal("10.1.2.0/24"),
  };
  const runChained: Run = (command, more) =>
    hosts.run("bandwidth", command, { ...config, ...WIDE, ...more });
  const added = await runMain("ADD", config);
  const before = hostLimits(hosts.host);
  const limited = await runChained("ADD", { prevResult: added.json });
  assertSuccess(limited);
  const count = limited.json.interfaces.length;
  assertEquals(count, added.json.interfaces.length + 1);

  const prevResult = limited.json;
  const steps = [
    async () => assertSuccess(await runChained("DEL", { prevResult })),
    async () => void await runMain("DEL", { ...config, prevResult }),
  ];
  const [first, second] = order === "bandwidth first"
    ? steps
    : steps.toReversed();
  await first?.();
  if (order === "bandwidth first") {
    assertEquals(hostLimits(hosts.host), before);
  }
  await second?.();
  const left = hostLimits(hosts.host);
  assertEquals(left.links.filter((name) => name !== "br0"), ["lo"]);
  assertEquals([left.qdiscs, left.filters], [[], []]);
  assertSuccess(await runChained("DEL", {}));
}

for (const who of ["ours", ...listPeers("bandwidth behind plugins")] as const) {
  for (const type of ["ptp", "bridge"]) {
    const name = `bandwidth works behind ${type} (${nameOf(who)})`;
    rootTest(name, async (t) => {
      for (const cniVersion of ["0.3.0", "0.4.0", "1.0.0"]) {
        await eachRow(
          t,
          ORDERS,
          (order) => attachAndDetach(type, who, cniVersion, order),
          (order) => `${cniVersion}, ${order}`,
        );
      }
    });
  }
}
