import { assertEquals } from "@std/assert";
import type { Call } from "../../../cni/plugin.ts";
import { Cidr } from "../../../net/cidr.ts";
import { testRows } from "../../../tests/_harness/table.ts";
import { requestedIpsOf } from "./free_ip.ts";

/** Addresses in the result, the configuration, CNI_ARGS, and what was requested. */
type Row = [
  title: string,
  leased: string[],
  keys: object,
  args: string,
  requested: string[],
];

const ipam = (type: string, keys: object = {}): object => ({
  ipam: { type, ...keys },
});
const ips = (...ips: string[]): object => ({ runtimeConfig: { ips } });
const SLICES = {
  range: "10.1.0.5-10.1.0.9/24",
  ipRanges: [{ range: "10.2.0.0/24" }],
};

testRows<Row>("requestedIpsOf() lists addresses that are not configured", [
  ["no request", ["10.1.0.5/24"], ipam("other"), "", []],
  ["an empty request", ["10.1.0.5/24"], ipam("other"), "IP=", []],
  ["CNI_ARGS", ["10.1.0.5/24"], ipam("other"), "A=B;IP=10.1.0.5", ["10.1.0.5"]],
  ["a different key", ["10.1.0.5/24"], ipam("other"), "VIP=10.1.0.5", []],
  [
    "malformed CNI_ARGS",
    ["10.1.0.5/24"],
    ipam("other"),
    "IP=10.1.0.5=1;A",
    ["10.1.0.5"],
  ],
  [
    "the configuration",
    ["10.1.0.5/24"],
    { ...ipam("other"), Args: { CNI: { IPs: ["10.1.0.5"] } } },
    "",
    ["10.1.0.5"],
  ],
  [
    "two spellings",
    ["10.1.0.5/24"],
    { ...ipam("other"), args: { cni: { IPS: ["10.1.0.5"], ips: [] } } },
    "",
    ["10.1.0.5"],
  ],
  [
    "the runtime",
    ["10.1.0.5/24"],
    { ...ipam("other"), ...ips("10.1.0.5/24") },
    "",
    ["10.1.0.5"],
  ],
  [
    "a range",
    ["10.1.0.6/24", "10.2.0.7/24"],
    { ...ipam("whereabouts", SLICES), ...ips("10.1.0.6", "10.2.0.7") },
    "",
    [],
  ],
  [
    "outside the ranges",
    ["10.1.0.6/24", "10.3.0.7/24"],
    { ...ipam("whereabouts", SLICES), ...ips("10.3.0.7/24") },
    "",
    ["10.3.0.7"],
  ],
  [
    "larger than the range",
    ["10.1.0.6/8"],
    { ...ipam("other", SLICES), ...ips("10.1.0.6/8") },
    "",
    ["10.1.0.6"],
  ],
  [
    "own ranges",
    ["10.1.0.6/24"],
    { ...ipam("host-local"), ...ips("10.1.0.6") },
    "",
    [],
  ],
  [
    "a configured address",
    ["10.1.0.6/24", "10.1.0.7/24"],
    ipam("static", { Addresses: [{ Address: "10.1.0.6/24" }] }),
    "IP=10.1.0.7/24",
    ["10.1.0.7"],
  ],
  [
    "a configured address with a different length",
    ["10.1.0.6/8"],
    {
      ...ipam("static", { addresses: [{ address: "10.1.0.6/24" }] }),
      ...ips("10.1.0.6/8"),
    },
    "",
    ["10.1.0.6"],
  ],
], ([, leased, config, args, requested]) => {
  const lease = {
    ips: leased.map((text) => ({
      address: Cidr.parse(text),
      gateway: undefined,
    })),
  };
  const call = { config, args: { args } } as unknown as Pick<
    Call,
    "args" | "config"
  >;
  assertEquals(requestedIpsOf(lease, call).map(String), requested);
}, ([title]) => title);
