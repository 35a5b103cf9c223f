import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../net/cidr.ts";
import {
  buildCapabilityArgs,
  parseQuantity,
  readBandwidth,
} from "./capability_args.ts";
import type { Pod } from "./pod.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { CniError } from "../base/error.ts";

const POD: Pod = { namespace: "n", name: "p", containerId: "c", netns: "/n" };

testRows("buildCapabilityArgs() passes only values that the pod has", [
  ["nothing", {}, [], {}],
  [
    "nothing but empty values",
    {
      portMappings: [],
      dns: { servers: [], searches: [], options: [] },
      annotations: {},
      cgroupPath: "",
      ipRanges: [],
    },
    [],
    {},
  ],
  [
    "ports",
    {
      portMappings: [
        { hostPort: 8080, containerPort: 80, protocol: "TCP" },
        { hostPort: 53, containerPort: 53, protocol: "UDP", hostIp: "::1" },
        { hostPort: 1, containerPort: 2, hostIp: "" },
        { hostPort: 0, containerPort: 3 },
        { hostPort: -1, containerPort: 4 },
      ],
    },
    [],
    {
      portMappings: [
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
        { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "::1" },
        { hostPort: 1, containerPort: 2, protocol: "tcp" },
      ],
    },
  ],
  [
    "ports without one of the host",
    { portMappings: [{ hostPort: 0, containerPort: 3 }] },
    [],
    {},
  ],
  [
    "the node's ranges",
    {},
    ["10.1.2.0/24", "fd00::/64"],
    { ipRanges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "fd00::/64" }]] },
  ],
  [
    "ranges of its own",
    { ipRanges: [[{ subnet: "10.9.0.0/16", gateway: "10.9.0.9" }]] },
    ["10.1.2.0/24"],
    { ipRanges: [[{ subnet: "10.9.0.0/16", gateway: "10.9.0.9" }]] },
  ],
  [
    "a resolver",
    { dns: { servers: ["10.0.0.10"], options: ["ndots:5"] } },
    [],
    { dns: { servers: ["10.0.0.10"], searches: [], options: ["ndots:5"] } },
  ],
  [
    "annotations, two of which are its bandwidth",
    { annotations: { a: "b", "kubernetes.io/egress-bandwidth": "1M" } },
    [],
    {
      bandwidth: { egressRate: 1_000_000, egressBurst: 2 ** 31 - 1 },
      "io.kubernetes.cri.pod-annotations": {
        a: "b",
        "kubernetes.io/egress-bandwidth": "1M",
      },
    },
  ],
  [
    "a control group",
    { cgroupPath: "/kubepods/pod1" },
    [],
    { cgroupPath: "/kubepods/pod1" },
  ],
  [
    "other capabilities, and one that is replaced",
    {
      capabilityArgs: { ips: ["10.1.2.3"], cgroupPath: "/b" },
      cgroupPath: "/a",
    },
    [],
    { ips: ["10.1.2.3"], cgroupPath: "/b" },
  ],
], ([, pod, podCidrs, args]: [string, Partial<Pod>, string[], unknown]) => {
  const cidrs = podCidrs.map(Cidr.parse);
  assertEquals<unknown>(
    buildCapabilityArgs({ ...POD, ...pod }, cidrs),
    args,
  );
});

const INGRESS = "kubernetes.io/ingress-bandwidth";
const EGRESS = "kubernetes.io/egress-bandwidth";
const BURST = 2 ** 31 - 1;

Deno.test("readBandwidth() reads rates, with an unlimited burst", async (t) => {
  const rows: [string, Record<string, string> | undefined, unknown][] = [
    ["no annotations", undefined, undefined],
    ["other annotations", { a: "b" }, undefined],
    ["into the pod", { [INGRESS]: "10M" }, {
      ingressRate: 10_000_000,
      ingressBurst: BURST,
    }],
    ["out of it", { [EGRESS]: "1Gi" }, {
      egressRate: 1_073_741_824,
      egressBurst: BURST,
    }],
    ["both", { [INGRESS]: "1e6", [EGRESS]: "1.5k" }, {
      ingressRate: 1_000_000,
      ingressBurst: BURST,
      egressRate: 1_500,
      egressBurst: BURST,
    }],
    ["the least", { [INGRESS]: "1k" }, {
      ingressRate: 1_000,
      ingressBurst: BURST,
    }],
    ["the most", { [INGRESS]: "1P" }, {
      ingressRate: 10 ** 15,
      ingressBurst: BURST,
    }],
  ];
  await eachRow(
    t,
    rows,
    ([, annotations, bandwidth]) =>
      assertEquals<unknown>(readBandwidth(annotations), bandwidth),
  );
});

Deno.test("readBandwidth() refuses the same values as Kubernetes, with its messages", async (t) => {
  const rows: [text: string, why: string][] = [
    ["999", "resource is unreasonably small (< 1kbit)"],
    ["0", "resource is unreasonably small (< 1kbit)"],
    ["-1M", "resource is unreasonably small (< 1kbit)"],
    ["1001T", "resource is unreasonably large (> 1Pbit)"],
    ["1e99999", "resource is unreasonably large (> 1Pbit)"],
    [
      "fast",
      "quantities must match the regular expression " +
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [
      "",
      "quantities must match the regular expression " +
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
  ];
  for (const key of [INGRESS, EGRESS]) {
    await eachRow(t, rows, ([text, why]) => {
      const error = assertThrows(
        () => readBandwidth({ [key]: text }),
        CniError,
      );
      const { code, message, details } = error;
      assertEquals({ code, message, details }, {
        code: 7,
        message: "failed to get pod bandwidth from annotations",
        details: `${key}=${JSON.stringify(text)}: ${why}`,
      });
    }, ([text]) => `${key}=${text}`);
  }
});

testRows<[string, bigint]>("parseQuantity() reads what Kubernetes writes", [
  ["0", 0n],
  ["10", 10n],
  ["+10", 10n],
  ["-10", -10n],
  ["007", 7n],
  ["10M", 10_000_000n],
  ["1k", 1_000n],
  ["1G", 1_000_000_000n],
  ["1T", 10n ** 12n],
  ["1P", 10n ** 15n],
  ["1E", 10n ** 18n],
  ["1Ki", 1_024n],
  ["1Mi", 1_048_576n],
  ["1Gi", 1_073_741_824n],
  ["1Ei", 1n << 60n],
  ["1.5Gi", 1_610_612_736n],
  ["1e6", 1_000_000n],
  ["1E6", 1_000_000n],
  ["1e+6", 1_000_000n],
  ["1.25e3", 1_250n],
  [".5k", 500n],
  ["5.", 5n],
  ["1e0", 1n],
], ([text, value]) => assertEquals(parseQuantity(text), value));

testRows<[string, bigint]>("parseQuantity() rounds up", [
  ["1m", 1n],
  ["1000m", 1n],
  ["1001m", 2n],
  ["1u", 1n],
  ["1n", 1n],
  ["0n", 0n],
  ["1.1", 2n],
  ["1e-3", 1n],
  ["-1.5", -1n],
  ["0.0001Ki", 1n],
], ([text, value]) => assertEquals(parseQuantity(text), value));

Deno.test("parseQuantity() parses huge exponents quickly", () => {
  assertEquals(parseQuantity("1e999999999") > 10n ** 19n, true);
  assertEquals(parseQuantity("1e-999999999"), 1n);
});

testRows("parseQuantity() refuses malformed quantities", [
  "",
  ".",
  "M",
  "10 M",
  " 10",
  "10\n",
  "1.2.3",
  "--1",
  "10m10",
  "10K",
  "10mi",
  "10Mb",
  "1e",
  "1e1.5",
  "0x10",
  "٣",
  "Infinity",
], (text) => {
  const error = assertThrows(() => parseQuantity(text), CniError);
  assertEquals(error.code, 7);
}, (text) => JSON.stringify(text));
