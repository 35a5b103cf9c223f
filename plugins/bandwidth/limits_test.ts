import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { decode } from "../../base/json/json.ts";
import { bandwidthSchema } from "./schema.ts";
import { type Limits, limitsOf } from "./limits.ts";
import { eachRow } from "../../tests/_harness/table.ts";

function read(config: object): Limits {
  return limitsOf(decode(bandwidthSchema(), config, "network configuration"));
}

/** Formats both directions as `rate/burst`, with the limited traffic. */
function show({ ingress, egress, scope }: Limits): string {
  const [left, right] = [ingress, egress].map((limit) =>
    limit === undefined ? "-" : `${limit.bitsPerSecond}/${limit.burstBits}`
  );
  const whose = scope === undefined
    ? ""
    : ` ${scope.isShaped ? "only" : "not"} ${scope.networks.join(" ")}`;
  return `${left} ${right}${whose}`;
}

const INGRESS = { ingressRate: 1, ingressBurst: 2 };
const EGRESS = { egressRate: 3, egressBurst: 4 };

Deno.test("limitsOf() reads the configuration, or runtimeConfig without limits in it", async (t) => {
  const runtimeConfig = { bandwidth: { ...INGRESS, ...EGRESS } };
  const rows: [name: string, config: object, want: string][] = [
    ["nothing", {}, "- -"],
    ["both directions", { ...INGRESS, ...EGRESS }, "1/2 3/4"],
    ["one direction", EGRESS, "- 3/4"],
    ["zeros", { ingressRate: 0, ingressBurst: 0 }, "- -"],
    ["the runtime's", { runtimeConfig }, "1/2 3/4"],
    ["the runtime's, empty", { runtimeConfig: { bandwidth: {} } }, "- -"],
    ["the runtime's, null", { runtimeConfig: { bandwidth: null } }, "- -"],
    ["no runtime's", { runtimeConfig: { mac: "x" } }, "- -"],
    ["both: the configuration's", { ...EGRESS, runtimeConfig }, "- 3/4"],
    ["both: the configuration's, though it is 0", {
      ingressRate: 0,
      runtimeConfig,
    }, "- -"],
    ["both: null is as if it were not there", {
      ingressRate: null,
      runtimeConfig,
    }, "1/2 3/4"],
    ["keys in another case", {
      RuntimeConfig: { bandWidth: { IngressRate: 1, ingressburst: 2 } },
    }, "1/2 -"],
    ["numbers of 64 bits", {
      egressRate: 18446744073709551615n,
      egressBurst: 8,
    }, "- 18446744073709552000/8"],
    [
      "some subnets only",
      { ...EGRESS, shapedSubnets: ["10.1.2.3/8"] },
      "- 3/4 only 10.1.2.3/8",
    ],
    ["not some subnets", {
      ...EGRESS,
      unshapedSubnets: ["10.0.0.0/8", "2001:db8::/32"],
    }, "- 3/4 not 10.0.0.0/8 2001:db8::/32"],
    ["empty lists of subnets", {
      ...EGRESS,
      unshapedSubnets: [],
      shapedSubnets: [],
    }, "- 3/4"],
    ["the operator's subnets with the runtime's rates", {
      unshapedSubnets: ["10.0.0.0/8"],
      runtimeConfig,
    }, "1/2 3/4 not 10.0.0.0/8"],
    ["the runtime's subnets", {
      unshapedSubnets: ["10.0.0.0/8"],
      runtimeConfig: {
        bandwidth: { ...EGRESS, shapedSubnets: ["192.0.2.0/24"] },
      },
    }, "- 3/4 only 192.0.2.0/24"],
  ];
  await eachRow(t, rows, ([, config, want]) => {
    const text = JSON.stringify(
      config,
      (_key, value) => typeof value === "bigint" ? Number(value) : value,
    );
    assertEquals(show(read(JSON.parse(text))), want);
  });
});

Deno.test("limitsOf() refuses contradictory limits", async (t) => {
  const needsRate = "if burst is set, rate must also be set";
  const rows: [name: string, config: object, message: string][] = [
    ["ingress without rate", { ingressBurst: 1 }, needsRate],
    ["egress without rate", { egressRate: 0, egressBurst: 1 }, needsRate],
    ["the runtime's", {
      runtimeConfig: { bandwidth: { egressBurst: 1 } },
    }, needsRate],
    ["a burst of 4 GiB", {
      ingressRate: 1,
      ingressBurst: 2 ** 35,
    }, "burst cannot be more than 4GB"],
    [
      "both kinds of subnets",
      {
        ...EGRESS,
        shapedSubnets: ["10.0.0.0/8"],
        unshapedSubnets: ["10.0.0.0/8"],
      },
      "unshapedSubnets and shapedSubnets cannot be both specified, one of them should be discarded",
    ],
    ["no subnet", {
      ...EGRESS,
      shapedSubnets: ["10.0.0.0"],
    }, "Cannot decode network configuration: shapedSubnets[0]: "],
    [
      "a negative rate",
      { ingressRate: -1 },
      "Cannot decode network configuration: ingressRate: expected an integer from 0 to 2^64 - 1",
    ],
    [
      "half a bit",
      { egressBurst: 0.5 },
      "Cannot decode network configuration: egressBurst: expected an integer from 0 to 2^64 - 1",
    ],
    [
      "a text",
      { runtimeConfig: { bandwidth: { egressBurst: "1" } } },
      "Cannot decode network configuration: runtimeConfig.bandwidth.egressBurst: expected a number, got a string",
    ],
  ];
  await eachRow(t, rows, ([, config, message]) => {
    const error = assertThrows(() => read(config), CniError);
    assertEquals([error.code, error.message.slice(0, message.length)], [
      7,
      message,
    ]);
  });
});

Deno.test("limitsOf() chooses a burst if none is given", async (t) => {
  const rows: [rate: number, burst: number][] = [
    [1, 147_456],
    [1e6, 147_456],
    [100e6, 10e6],
    [1e12, 34_359_738_352],
  ];
  await eachRow(t, rows, ([rate, burst]) => {
    const limits = read({
      ingressRate: rate,
      egressRate: rate,
      egressBurst: 0,
    });
    assertEquals([limits.ingress, limits.egress], [
      { bitsPerSecond: rate, burstBits: burst },
      { bitsPerSecond: rate, burstBits: burst },
    ]);
  });
});
