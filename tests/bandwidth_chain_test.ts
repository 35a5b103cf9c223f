/** bandwidth behind the plugins that connect containers: ours, and the Go ones. */

import { assertEquals } from "@std/assert";
import {
  goPlugin,
  ignoreUnless,
  requireRoot,
} from "./_harness/capabilities.ts";
import { assertSuccess, hostLimits, WIDE } from "./_harness/limited_cable.ts";
import { type CallOutput, TestHosts } from "./_harness/test_hosts.ts";

const GO = (goPlugin("ptp") ?? "").replace(/\/[^/]*$/, "");

type Run = (command: string, config: object) => Promise<CallOutput>;

/** Runs the plugin that connects the container. */
function runnerOf(hosts: TestHosts, type: string, isGo: boolean): Run {
  if (!isGo) return (command, config) => hosts.run(type, command, config);
  const env = { CNI_PATH: GO };
  return (command, config) =>
    Promise.resolve(hosts.exec(`${GO}/${type}`, command, config, { env }));
}

/** Which of the two is asked to detach the container first. */
const ORDERS = ["bandwidth first", "bandwidth last"] as const;

async function attachAndDetach(
  type: string,
  isGo: boolean,
  cniVersion: string,
  order: typeof ORDERS[number],
): Promise<void> {
  using hosts = TestHosts.create();
  const runMain = runnerOf(hosts, type, isGo);
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
  assertEquals(added.exitCode, 0, added.stdout);
  const before = hostLimits(hosts.host);
  const limited = await runChained("ADD", { prevResult: added.json });
  assertSuccess(limited);
  const count = limited.json.interfaces.length;
  assertEquals(count, added.json.interfaces.length + 1);

  const prevResult = limited.json;
  const steps = [
    async () => assertSuccess(await runChained("DEL", { prevResult })),
    async () => {
      const deleted = await runMain("DEL", { ...config, prevResult });
      assertEquals(deleted.exitCode, 0, deleted.stdout);
    },
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

for (const isGo of [false, true]) {
  const go = isGo
    ? ignoreUnless(GO !== "", "needs the Go plugins")
    : { ignore: false, suffix: "" };
  for (const type of ["ptp", "bridge"]) {
    const whose = isGo ? "the Go plugin " : "";
    const { name, ignore } = requireRoot(
      `bandwidth works behind ${whose}${type}${go.suffix}`,
    );
    Deno.test({ name, ignore: ignore || go.ignore }, async (t) => {
      for (const cniVersion of ["0.3.0", "0.4.0", "1.0.0"]) {
        for (const order of ORDERS) {
          await t.step(
            `${cniVersion}, ${order}`,
            () => attachAndDetach(type, isGo, cniVersion, order),
          );
        }
      }
    });
  }
}
