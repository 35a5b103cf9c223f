/**
 * Values that a mutation puts in the place of others.
 *
 * @module
 */

import { SPEC_VERSIONS } from "../../cni/version.ts";

/** Texts that are hard on something. */
export const TEXTS = [
  "",
  " ",
  "\0",
  "\n",
  "a\0b",
  "%%",
  "..",
  "a/b",
  "../../a",
  "ä".repeat(9),
  "\ud800",
  "\ufeff",
  "__proto__",
  "constructor",
  "toString",
  "a".repeat(300),
  "eth0",
  "lo",
  "1",
  "true",
  "none",
  "{}",
  "null",
] as const;

const NUMBERS = [0, -0, -1, 1, 1.5, 4096, 65536, 2 ** 31, 2 ** 32]
  .concat(2 ** 53, 2 ** 63, 1e300, -1e300, 5e-324);

const ADDRESSES = [
  "10.1.2.3",
  "10.1.2.3/24",
  "10.1.2.3/33",
  "10.1.2.0/31",
  "010.1.2.3/24",
  "0.0.0.0/0",
  "255.255.255.255/32",
  "::/0",
  "::ffff:10.1.2.3/120",
  "fe80::1%eth0/64",
  "2001:db8::5/127",
  "02:00:00:00:00:01",
];

const STRUCTURES = [
  [],
  [null],
  [[]],
  [{}],
  {},
  { type: 5 },
  { type: "none" },
  { type: "host-local" },
  [{ containerID: "c", ifname: "eth0" }],
  [[{ subnet: "10.0.0.0/30" }], [{ subnet: "2001:db8::/64" }]],
  [{ subnet: "10.1.2.0/24", rangeStart: "10.1.2.9", rangeEnd: "10.1.2.8" }],
  [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  [{ hostPort: 80, containerPort: 80, protocol: "tcp" }],
  { ips: [{ address: "10.1.2.3/24", interface: 9 }] },
  { interfaces: [{ name: "eth0", sandbox: "@sandbox" }], ips: null },
  { cniVersion: "0.2.0", ip4: { ip: "10.1.2.3/24" } },
];

/** Values of all types that JSON has, some of which fit somewhere. */
export const VALUES: readonly [unknown, ...unknown[]] = [
  null,
  true,
  false,
  ...NUMBERS,
  ...STRUCTURES,
  ...TEXTS,
  ...SPEC_VERSIONS,
  "1.1",
  "9.8.7",
  ...ADDRESSES,
];
