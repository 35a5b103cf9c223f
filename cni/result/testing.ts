/**
 * One result that has something of everything, and what every version makes of
 * it.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import type { Result } from "./result.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";

/** The result that `tests/golden/results/` holds in each version. */
export const GOLDEN: Result = {
  interfaces: [
    { name: "br0", mac: "aa:bb", mtu: 1500, socketPath: "/s", pciId: "p" },
    { name: "eth0", sandbox: "/ns" },
  ],
  ips: [
    {
      interface: 1,
      address: Cidr.parse("10.0.0.5/24"),
      gateway: Ip.parse("10.0.0.1"),
    },
    { address: Cidr.parse("fd00::5/64") },
    { address: Cidr.parse("10.0.0.6/24") },
  ],
  routes: [
    {
      dst: Cidr.parse("0.0.0.0/0"),
      gw: Ip.parse("10.0.0.1"),
      mtu: 1400,
      advmss: 1300,
      priority: 5,
      table: 254,
      scope: 0,
    },
    { dst: Cidr.parse("::/0") },
  ],
  dns: { nameservers: [], domain: "", search: [], options: [] },
};

/** The versions that share a shape, oldest first. */
const FAMILIES = [
  ["0.1.0", "0.2.0"],
  ["0.3.0", "0.3.1", "0.4.0"],
  ["1.0.0", "1.1.0"],
];

/** Maps versions of the same shape to the same number. */
export function familyOf(version: string): number {
  return FAMILIES.findIndex((versions) => versions.includes(version));
}

/** Reads the golden result as a version prints it. */
export function readGolden(version: string): string {
  const file = `../../tests/golden/results/${version}.json`;
  return Deno.readTextFileSync(new URL(file, import.meta.url));
}

/** The golden result after its conversion to a richer version. */
const IMPOVERISHED: Record<string, JsonObject> = {
  "0 to 1": {
    ips: [
      { version: "4", address: "10.0.0.5/24", gateway: "10.0.0.1" },
      { version: "6", address: "fd00::5/64" },
    ],
    routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }, { dst: "::/0" }],
    dns: {},
  },
  "0 to 2": {
    ips: [
      { address: "10.0.0.5/24", gateway: "10.0.0.1" },
      { address: "fd00::5/64" },
    ],
    routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }, { dst: "::/0" }],
  },
  "1 to 2": {
    interfaces: [{ mac: "aa:bb", name: "br0" }, {
      name: "eth0",
      sandbox: "/ns",
    }],
    ips: [
      { address: "10.0.0.5/24", gateway: "10.0.0.1", interface: 1 },
      { address: "fd00::5/64" },
      { address: "10.0.0.6/24" },
    ],
    routes: [
      {
        advmss: 1300,
        dst: "0.0.0.0/0",
        gw: "10.0.0.1",
        mtu: 1400,
        priority: 5,
        scope: 0,
        table: 254,
      },
      { dst: "::/0" },
    ],
  },
};

/** Returns the golden result of one version converted to another, as printed. */
export function goldenBetween(from: string, to: string): string {
  const left = IMPOVERISHED[`${familyOf(from)} to ${familyOf(to)}`];
  return left === undefined
    ? readGolden(to)
    : JSON.stringify({ cniVersion: to, ...left }, null, 4);
}
