import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../net/cidr.ts";
import { buildCapabilityArgs, readBandwidth } from "./capability_args.ts";
import type { Pod } from "./pod.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { CniError } from "../base/error.ts";

const POD: Pod = { namespace: "n", name: "p", containerId: "c", netns: "/n" };

testRows("buildCapabilityArgs() offers what a pod has, and nothing else", [
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

Deno.test("readBandwidth() reads rates, with a burst that is no limit", async (t) => {
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

Deno.test("readBandwidth() refuses what Kubernetes does, in its words", async (t) => {
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
