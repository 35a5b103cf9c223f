/**
 * host-local from end to end, in every version of the specification: the rows
 * HL of the conformance list.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { LeaseStore } from "./store.ts";
import { Ip } from "../../net/ip.ts";
import { conformance, type Row } from "../../tests/_harness/conformance.ts";
import {
  assertFailure,
  assertSuccess,
  DataDirectory,
  type Output,
  runInProcess as run,
} from "./testing.ts";

const DNS = { nameservers: ["192.0.2.3"], domain: "example.test" };
const RESOLV_CONF = "nameserver 192.0.2.3\ndomain example.test\n";
const IPV4_ROUTES = [
  { dst: "0.0.0.0/0" },
  { dst: "192.168.0.0/16", gw: "1.1.1.1" },
];
const IPV6_ROUTES = [
  { dst: "::/0" },
  { dst: "2001:db8:2::/64", gw: "2001:db8:3::1" },
];
const DUAL_STACK: JsonObject = {
  ranges: [
    [{ subnet: "10.1.2.0/24" }, { subnet: "10.2.2.0/24" }],
    [{ subnet: "2001:db8:1::0/64" }],
  ],
  routes: [...IPV4_ROUTES, ...IPV6_ROUTES],
};
const LEASE = "dummy\r\neth0";
const TWO_SETS = {
  ranges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "10.1.3.0/24" }]],
};

/** A data directory and a version, the same for all calls of a row. */
class Fixture extends DataDirectory {
  readonly cniVersion: string;

  constructor(cniVersion: string) {
    super();
    this.cniVersion = cniVersion;
  }

  /** Runs a command, after STATUS where the version has it. */
  async run(
    command: string,
    ipam: JsonObject,
    { containerId = "dummy", ifName = "eth0", ...others }: Call = {},
  ): Promise<Output> {
    const { cniVersion } = this;
    const config = this.config(ipam, { cniVersion, ...others });
    if (command === "ADD" && isAtLeast(cniVersion, "1.1.0")) {
      assertSuccess(await run("STATUS", config));
    }
    const env = { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName };
    return run(command, config, env);
  }

  /** Runs ADD, and CHECK if the version has it. */
  async add(ipam: JsonObject, call: Call = {}): Promise<Output> {
    const added = await this.run("ADD", ipam, call);
    assertSuccess(added);
    const prevResult = added.json;
    const checked = await this.run("CHECK", ipam, { ...call, prevResult });
    if (isAtLeast(this.cniVersion, "0.4.0")) assertSuccess(checked);
    else assertFailure(checked, 1, "config version does not allow CHECK");
    return added;
  }

  async del(ipam: JsonObject, call: Call = {}): Promise<void> {
    assertSuccess(await this.run("DEL", ipam, call));
  }

  /** Creates the file that `resolvConf` names. */
  get resolvConf(): string {
    return this.write("resolv.conf", RESOLV_CONF);
  }
}

/** What is special about a call: the attachment, and more of the configuration. */
interface Call {
  readonly containerId?: string;
  readonly ifName?: string;
  readonly [key: string]: JsonObject[string];
}

function requests(...ips: string[]): { args: JsonObject } {
  return { args: { cni: { ips } } };
}

/** Returns the addresses of a result of any version. */
function addressesOf({ json }: Output): string[] {
  const old = [json.ip4?.ip, json.ip6?.ip].filter((ip) => ip !== undefined);
  return json.ips?.map(({ address }: JsonObject) => address) ?? old;
}

/** What ADD answers to {@linkcode DUAL_STACK}. */
function dualStackResult(cniVersion: string): JsonObject {
  const ipv4 = { address: "10.1.2.2/24", gateway: "10.1.2.1" };
  const ipv6 = { address: "2001:db8:1::2/64", gateway: "2001:db8:1::1" };
  if (!isAtLeast(cniVersion, "0.3.0")) {
    const ip4 = {
      ip: ipv4.address,
      gateway: ipv4.gateway,
      routes: IPV4_ROUTES,
    };
    const ip6 = {
      ip: ipv6.address,
      gateway: ipv6.gateway,
      routes: IPV6_ROUTES,
    };
    return { cniVersion, ip4, ip6, dns: DNS };
  }
  const ips = isAtLeast(cniVersion, "1.0.0")
    ? [ipv4, ipv6]
    : [{ version: "4", ...ipv4 }, { version: "6", ...ipv6 }];
  return {
    cniVersion,
    ips,
    routes: [...IPV4_ROUTES, ...IPV6_ROUTES],
    dns: DNS,
  };
}

/** Adds the dual-stack attachment, and passes the result and the leases. */
async function withDualStack(
  cniVersion: string,
  look: (added: Output, fixture: Fixture) => void | Promise<void>,
): Promise<void> {
  using fixture = new Fixture(cniVersion);
  const ipam = { ...DUAL_STACK, resolvConf: fixture.resolvConf };
  await look(await fixture.add(ipam), fixture);
}

/** Reports whether results of a version name the family of each address. */
function namesFamilies(cniVersion: string): boolean {
  return isAtLeast(cniVersion, "0.3.0") && !isAtLeast(cniVersion, "1.0.0");
}

function assertRefusesTwoOfAFamily(output: Output, cniVersion: string): void {
  assertFailure(
    output,
    7,
    `CNI version ${cniVersion} does not support more than 1 address per family`,
  );
}

/** The rows for a version. */
function rowsAt(cniVersion: string): Record<string, Row> {
  const isOld = !isAtLeast(cniVersion, "0.3.0");
  return {
    "HL-1: ADD answers an address of each set, routes and DNS": () =>
      withDualStack(cniVersion, (added) => {
        assertEquals(added.json, dualStackResult(cniVersion));
      }),

    "HL-2: addresses name their family in 0.3 and 0.4 only": () =>
      withDualStack(cniVersion, ({ stdout }) => {
        assertEquals(stdout.includes('"version"'), namesFamilies(cniVersion));
      }),

    "HL-3: each lease is a file that names container and interface": () =>
      withDualStack(cniVersion, (_, fixture) => {
        assertEquals(fixture.leases(), {
          "10.1.2.2": LEASE,
          "2001:db8:1::2": LEASE,
        });
      }),

    "HL-4: each set remembers its last address": () =>
      withDualStack(cniVersion, (_, fixture) => {
        const files = fixture.read();
        assertEquals(files["last_reserved_ip.0"], "10.1.2.2");
        assertEquals(files["last_reserved_ip.1"], "2001:db8:1::2");
      }),

    "HL-5: DEL removes the leases and nothing else": () =>
      withDualStack(cniVersion, async (_, fixture) => {
        await fixture.del(DUAL_STACK);
        assertEquals(fixture.read(), {
          "lock": "",
          "last_reserved_ip.0": "10.1.2.2",
          "last_reserved_ip.1": "2001:db8:1::2",
        });
      }),

    "HL-6: networks and interfaces of one container are apart": async () => {
      using fixture = new Fixture(cniVersion);
      const first = { ifName: "eth0", name: "mynet1" };
      const second = { ifName: "eth1", name: "mynet2" };
      const ranges = [{ subnet: "10.1.2.0/24" }, { subnet: "10.2.2.0/24" }];
      const [one = {}, two = {}] = ranges;
      assertEquals(addressesOf(await fixture.add(one, first)), ["10.1.2.2/24"]);
      assertEquals(addressesOf(await fixture.add(two, second)), [
        "10.2.2.2/24",
      ]);
      await fixture.del(one, first);
      assertEquals(fixture.leases("mynet1"), {});
      assertEquals(fixture.leases("mynet2"), { "10.2.2.2": "dummy\r\neth1" });
      await fixture.del(two, second);
      assertEquals(fixture.leases("mynet2"), {});
    },

    "HL-7: a second ADD is refused, and does not disturb others": async () => {
      using fixture = new Fixture(cniVersion);
      const ipam = { subnet: "10.1.2.0/24" };
      for (const [i, containerId] of ["dummy", "dummy1"].entries()) {
        const added = await fixture.add(ipam, { containerId });
        assertEquals(addressesOf(added), [`10.1.2.${2 + i}/24`]);
        const again = await fixture.run("ADD", ipam, { containerId });
        assertEquals(again.exitCode, 1);
        assertStringIncludes(
          again.json.msg,
          "duplicate allocation is not allowed",
        );
      }
      await fixture.del(ipam);
      await fixture.del(ipam, { containerId: "dummy1" });
      assertEquals(fixture.leases(), {});
    },

    "HL-8: DEL removes a lease of the container alone": async () => {
      using fixture = new Fixture(cniVersion);
      fixture.plant({ "10.1.2.2": "dummy", "10.1.2.3": "other" });
      await fixture.del({ subnet: "10.1.2.0/24" });
      assertEquals(fixture.leases(), { "10.1.2.3": "other" });
    },

    "HL-9: DEL of an unknown container succeeds": async () => {
      using fixture = new Fixture(cniVersion);
      await fixture.del({ subnet: "10.1.2.0/24" });
      fixture.plant({ "10.1.2.2": "other\r\neth0" });
      await fixture.del({ subnet: "10.1.2.0/24" });
      assertEquals(fixture.leases(), { "10.1.2.2": "other\r\neth0" });
    },

    // dispatch() lets no such container ID in, so this is asked of the store.
    "HL-10: blanks around a container ID do not count": async () => {
      using fixture = new Fixture(cniVersion);
      using store = await LeaseStore.open(fixture.path, "mynet");
      const owner: AttachmentId = { containerId: "  dummy\n ", ifName: "eth0" };
      assert(store.reserve(Ip.parse("10.1.2.2"), owner));
      assertEquals(fixture.leases(), { "10.1.2.2": LEASE });
      store.release(store.leasesOf(owner));
      assertEquals(fixture.leases(), {});
    },

    "HL-11: the first ADD has nothing to say on stderr": async () => {
      using fixture = new Fixture(cniVersion);
      const added = await fixture.run("ADD", { subnet: "10.1.2.0/24" });
      assertEquals(added.stderr, "");
    },

    "HL-12: an address is given as requested": async () => {
      using fixture = new Fixture(cniVersion);
      const ipam = { subnet: "10.1.2.0/24" };
      const added = await fixture.add(ipam, requests("10.1.2.88"));
      assertEquals(addressesOf(added), ["10.1.2.88/24"]);
    },

    "HL-13: each set is given the address requested of it": async () => {
      using fixture = new Fixture(cniVersion);
      const call = requests("10.1.2.88", "10.1.3.77");
      if (isOld) {
        const output = await fixture.run("ADD", TWO_SETS, call);
        return assertRefusesTwoOfAFamily(output, cniVersion);
      }
      const added = await fixture.add(TWO_SETS, call);
      assertEquals(addressesOf(added), ["10.1.2.88/24", "10.1.3.77/24"]);
    },

    "HL-14: any range of a set may have the address requested": async () => {
      using fixture = new Fixture(cniVersion);
      const ranges = [
        [{ subnet: "172.16.1.0/24" }, { subnet: "10.1.2.0/24" }],
        [{ subnet: "2001:db8:1::/64" }],
      ];
      const call = requests("10.1.2.88", "2001:db8:1::999");
      const added = await fixture.add({ ranges }, call);
      assertEquals(addressesOf(added), ["10.1.2.88/24", "2001:db8:1::999/64"]);
    },

    "HL-15: two addresses of one set cannot both be given": async () => {
      using fixture = new Fixture(cniVersion);
      const call = requests("10.1.2.88", "10.1.2.77");
      const output = await fixture.run("ADD", TWO_SETS, call);
      if (isOld) return assertRefusesTwoOfAFamily(output, cniVersion);
      assertEquals(output.exitCode, 1);
      assertStringIncludes(
        output.json.msg,
        "failed to allocate all requested IPs: 10.1.2.",
      );
      assertEquals(fixture.list(), []);
    },
  };
}

for (const cniVersion of SPEC_VERSIONS) {
  const rows = Object.entries(rowsAt(cniVersion)).map(([name, row]) => [
    name.replace(":", ` at ${cniVersion}:`),
    row,
  ]);
  conformance("host-local", Object.fromEntries(rows));
}
