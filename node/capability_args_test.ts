import { assertEquals } from "@std/assert";
import { Cidr } from "../net/cidr.ts";
import { buildCapabilityArgs } from "./capability_args.ts";
import type { Pod } from "./pod.ts";
import { testRows } from "../tests/_harness/table.ts";

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
