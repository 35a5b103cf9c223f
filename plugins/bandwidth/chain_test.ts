/** bandwidth behind the plugins that connect containers: ours, and the Go ones. */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { intercept } from "../../testing/fault_injector.ts";
import {
  assertSuccess,
  hostLimits,
  LimitedPair,
  WIDE,
} from "./testing/limited_pair.ts";
import {
  listPeers,
  nameOf,
  succeedAs,
  type Who,
} from "../../tests/_harness/parity.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

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

for (const type of ["ptp", "bridge"]) {
  rootTest(
    `DEL of a chain deletes the limits with the veth pair of ${type}`,
    async () => {
      using hosts = TestHosts.create();
      const ipam = hosts.hostLocal("10.1.2.0/24");
      const config = {
        cniVersion: "1.0.0",
        name: "net1",
        type: "chain",
        plugins: [{ type, bridge: "br0", ipam }, {
          type: "bandwidth",
          ...WIDE,
        }],
      };
      const { json: prevResult } = await hosts.run("chain", "ADD", config);
      const requests: string[] = [];
      using _record = recordRequests(requests);
      const withResult = { ...config, prevResult };
      assertSuccess(await hosts.run("chain", "DEL", withResult));
      assertEquals(requests.filter((name) => /QDISC|TFILTER/.test(name)), []);
      const { links, qdiscs, filters } = hostLimits(hosts.host);
      assertEquals(links.filter((name) => name !== "br0"), ["lo"]);
      assertEquals([qdiscs, filters, hosts.leases()], [[], [], []]);
    },
  );
}

rootTest(
  "DEL of a chain removes the limits of a veth pair that it keeps",
  async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const before = pair.limits();
    await pair.add(WIDE);
    const config = {
      cniVersion: "1.1.0",
      name: "cni-plugin-bandwidth-test",
      type: "chain",
      plugins: [{ type: "sbr" }, { type: "bandwidth", ...WIDE }],
      prevResult: pair.prevResult,
    };
    const { exitCode, stdout } = await hosts.run("chain", "DEL", config, {
      containerId: "dummy",
      ifName: "container-veth",
    });
    assertEquals([exitCode, stdout], [0, ""]);
    assertEquals(pair.limits(), before);
  },
);

/** Records the names of the requests that wait for their answer one by one. */
function recordRequests(names: string[]): Disposable {
  const stack = new DisposableStack();
  for (const method of ["request", "get", "dump"] as const) {
    stack.defer(
      intercept(NetlinkSocket.prototype, method, ([type], work) => {
        names.push((type as { name: string }).name);
        return work();
      }),
    );
  }
  return stack;
}
