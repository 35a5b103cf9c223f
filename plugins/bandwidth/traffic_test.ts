/** The effect of limits on real traffic. */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import {
  type Container,
  measureFlows,
  type Measurement,
  measureUndisturbed,
} from "./testing/flows.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { runIn } from "../../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/**
 * Tolerated deviation of a flow from its limit; headers, which limits count,
 * are 4.4 % of it.
 */
const TOLERANCE = 0.1;
/**
 * Time for unrelated work of the machine. It is short enough that a burst
 * within the window, when TCP fills a gap, does not count.
 */
const BURST_SECONDS = 0.1;
const GATEWAY = "10.1.2.1";
/** The warm-up is longer than any burst here, including TCP's start. */
const LIMITED = { to: GATEWAY, warmMs: 1000, windowMs: 2500 };
const UNLIMITED = { to: GATEWAY, warmMs: 100, windowMs: 400 };

function assertSuccess({ exitCode, stdout }: CallOutput): void {
  assertEquals(exitCode, 0, stdout);
}

/** Attaches a container by ptp and limits it. */
async function attach(
  hosts: TestHosts,
  containerId: string,
  limits: object,
): Promise<Container> {
  const sandbox = hosts.addNetns();
  const options = { sandbox, containerId };
  const config = {
    cniVersion: "1.1.0",
    name: "net1",
    ipam: { ...hosts.hostLocal("10.1.2.0/24"), routes: [{ dst: "0.0.0.0/0" }] },
  };
  const added = await hosts.run("ptp", "ADD", config, options);
  assertSuccess(added);
  const chained = { ...config, ...limits, prevResult: added.json };
  assertSuccess(await hosts.run("bandwidth", "ADD", chained, options));
  const [address = ""] = added.json.ips[0].address.split("/");
  return { sandbox, address };
}

function assertNear(rate: number, limit: number): void {
  const share = rate / limit;
  assert(
    share > 1 - TOLERANCE && share < 1 + TOLERANCE,
    `${rate} bit/s are ${share} of ${limit} bit/s`,
  );
}

const RATES = [10e6, 50e6, 200e6];

for (
  const [direction, other] of [
    ["ingress", "egress"],
    ["egress", "ingress"],
  ] as const
) {
  rootTest(`bandwidth limits ${direction}, and ${direction} only`, async () => {
    using hosts = TestHosts.create();
    const containers: Container[] = [];
    for (const rate of RATES) {
      const limits = {
        [`${direction}Rate`]: rate,
        [`${direction}Burst`]: rate * BURST_SECONDS,
      };
      containers.push(await attach(hosts, `c${rate}`, limits));
    }
    const limited = await measureUndisturbed(
      () => measureFlows(hosts.host, containers, direction, LIMITED),
      RATES,
      TOLERANCE,
    );
    for (const [at, rate] of RATES.entries()) {
      assertNear(limited[at] ?? 0, rate);
    }
    let free: number[] = [];
    // A busy machine is slower for a while; a limit would stay.
    await eventually(
      "the other direction is faster",
      async () => {
        free = await measureFlows(hosts.host, containers, other, UNLIMITED);
        return RATES.every((rate, at) => (free[at] ?? 0) > 2 * rate);
      },
      () => `than twice ${RATES}, not ${free}`,
    );
  });
}

rootTest("bandwidth limits some subnets, or all others", async (t) => {
  const [near, far, rate] = ["10.9.0.1", "10.8.0.1", 40e6];
  const subnet = "10.9.0.0/24";
  await eachRow(
    t,
    [["shapedSubnets", near, far], ["unshapedSubnets", far, near]] as const,
    async ([key, limited, free]) => {
      using hosts = TestHosts.create();
      for (const address of [near, far]) {
        runIn(hosts.host, "ip", "address", "add", address, "dev", "lo");
      }
      const container = await attach(hosts, "c1", {
        ingressRate: rate,
        ingressBurst: rate * BURST_SECONDS,
        egressRate: rate,
        egressBurst: rate * BURST_SECONDS,
        [key]: [subnet],
      });
      for (const direction of ["ingress", "egress"] as const) {
        const rateTo = async (
          to: string,
          times: Pick<Measurement, "warmMs" | "windowMs">,
        ): Promise<number> => {
          const how = { to, ...times };
          const { host } = hosts;
          const [rate = 0] = await measureFlows(
            host,
            [container],
            direction,
            how,
          );
          return rate;
        };
        const long = { warmMs: 500, windowMs: 1200 };
        const short = { warmMs: 100, windowMs: 300 };
        const [measured = 0] = await measureUndisturbed(
          async () => [await rateTo(limited, long)],
          [rate],
          TOLERANCE,
        );
        assertNear(measured, rate);
        let freely = 0;
        await eventually(
          `${direction} ${free} is not limited`,
          async () => (freely = await rateTo(free, short)) > 3 * rate,
          () => `${freely} bit/s`,
        );
      }
    },
  );
});
