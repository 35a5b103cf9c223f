import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import type { IpConfig } from "../../cni/result/result.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { ensureGatewayAddresses, routedThroughBridge } from "./gateway.ts";
import { gatewayAddressesOf } from "./inspect.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** Parses `address gateway` and `address`. */
function ipOf(text: string): IpConfig {
  const [address = "", gateway] = text.split(" ");
  return {
    address: Cidr.parse(address),
    ...gateway === undefined ? {} : { gateway: Ip.parse(gateway) },
  };
}

/** Parses `destination gateway` and `destination`. */
function routeOf(text: string): { dst: Cidr; gw?: Ip } {
  const [dst = "", gw] = text.split(" ");
  return { dst: Cidr.parse(dst), ...gw ? { gw: Ip.parse(gw) } : {} };
}

/** The bridge's role for the container. */
const ROLES = {
  switch: { isGateway: false, isDefaultGateway: false },
  gateway: { isGateway: true, isDefaultGateway: false },
  default: { isGateway: true, isDefaultGateway: true },
} as const;

Deno.test("routedThroughBridge() adds missing gateways and default routes", async (t) => {
  const rows: [
    name: string,
    role: keyof typeof ROLES,
    ips: string[],
    routes: string[],
    wantIps: string[],
    wantRoutes: string[],
  ][] = [
    ["a switch changes nothing", "switch", ["10.0.0.5/24"], ["0.0.0.0/0"], [
      "10.0.0.5/24",
    ], ["0.0.0.0/0"]],
    [
      "nor does it mind the gateway",
      "switch",
      ["10.0.0.5/24 10.0.0.5", "10.0.1.5/24 fd00::1", "fd00::5/64 10.0.0.1"],
      [],
      ["10.0.0.5/24 10.0.0.5", "10.0.1.5/24 fd00::1", "fd00::5/64 10.0.0.1"],
      [],
    ],
    [
      "the first address of the subnet",
      "gateway",
      ["10.0.0.5/24", "fd00::5/64"],
      [],
      ["10.0.0.5/24 10.0.0.1", "fd00::5/64 fd00::1"],
      [],
    ],
    ["the gateway that IPAM names", "gateway", ["10.0.0.5/24 10.0.0.254"], [], [
      "10.0.0.5/24 10.0.0.254",
    ], []],
    [
      "the other address of two",
      "gateway",
      ["10.0.0.3/31", "10.0.1.2/31", "fd00::1/127"],
      [],
      ["10.0.0.3/31 10.0.0.2", "10.0.1.2/31 10.0.1.3", "fd00::1/127 fd00::"],
      [],
    ],
    [
      "a default route for each family",
      "default",
      ["10.0.0.5/24", "fd00::5/64"],
      [],
      ["10.0.0.5/24 10.0.0.1", "fd00::5/64 fd00::1"],
      ["0.0.0.0/0 10.0.0.1", "::/0 fd00::1"],
    ],
    [
      "by the family's first gateway",
      "default",
      ["10.0.0.5/24", "10.1.0.5/24"],
      [],
      ["10.0.0.5/24 10.0.0.1", "10.1.0.5/24 10.1.0.1"],
      ["0.0.0.0/0 10.0.0.1"],
    ],
    [
      "except those with a gateway of their own",
      "default",
      ["10.0.0.5/24", "fd00::5/64"],
      ["0.0.0.0/0 10.0.0.9"],
      ["10.0.0.5/24 10.0.0.1", "fd00::5/64 fd00::1"],
      ["0.0.0.0/0 10.0.0.9", "::/0 fd00::1"],
    ],
    [
      "also beside one without a gateway",
      "default",
      ["10.0.0.5/24"],
      ["0.0.0.0/0", "10.9.0.0/16"],
      ["10.0.0.5/24 10.0.0.1"],
      ["0.0.0.0/0", "10.9.0.0/16", "0.0.0.0/0 10.0.0.1"],
    ],
  ];
  await eachRow(t, rows, ([, role, ips, routes, wantIps, wantRoutes]) => {
    const lease = { ips: ips.map(ipOf), routes: routes.map(routeOf) };
    assertEquals(routedThroughBridge(lease, ROLES[role]), {
      ips: wantIps.map(ipOf),
      routes: wantRoutes.map(routeOf),
    });
  });
});

testRows("routedThroughBridge() refuses invalid IPAM results", [
  ["no address", [], "IPAM plugin returned missing IP config"],
  [
    "a gateway of the other family",
    ["10.0.0.5/24 fd00::1"],
    "IPAM plugin returned unusable gateway fd00::1 for 10.0.0.5/24",
  ],
  [
    "the container as its own gateway",
    ["10.0.0.5/24 10.0.0.5"],
    "IPAM plugin returned unusable gateway 10.0.0.5 for 10.0.0.5/24",
  ],
  [
    "the address that the gateway would get",
    ["10.0.0.1/24"],
    "IPAM plugin returned unusable gateway 10.0.0.1 for 10.0.0.1/24",
  ],
  [
    "the last address of a family, which no gateway follows",
    ["255.255.255.255/32"],
    "IPAM plugin returned unusable gateway 255.255.255.255 for 255.255.255.255/32",
  ],
], ([, ips, message]: [string, string[], string]) => {
  const lease = { ips: ips.map(ipOf), routes: [] };
  const error = assertThrows(
    () => routedThroughBridge(lease, ROLES.gateway),
    CniError,
  );
  assertEquals([error.code, error.message], [7, message]);
});

Deno.test("gatewayAddressesOf() lists each gateway once", () => {
  const ips = [
    "10.0.0.5/24 10.0.0.1",
    "10.0.0.6/24 10.0.0.1",
    "fd00::5/64 fd00::1",
    "10.1.0.5/24",
  ];
  assertEquals(gatewayAddressesOf(ips.map(ipOf)).map(String), [
    "10.0.0.1/24",
    "fd00::1/64",
  ]);
});

rootTest("ensureGatewayAddresses() replaces only with force", async (t) => {
  const rows: [string, string[], string[], boolean, string[] | string][] = [
    ["none there", [], ["10.0.0.1/24", "fd00::1/64"], false, [
      "10.0.0.1/24",
      "fd00::1/64",
    ]],
    ["the same is there", ["10.0.0.1/24"], ["10.0.0.1/24"], false, [
      "10.0.0.1/24",
    ]],
    [
      "another of IPv4",
      ["10.9.0.1/24"],
      ["10.0.0.1/24"],
      false,
      '"br0" already has an IP address different from 10.0.0.1/24',
    ],
    ["another of IPv4, by force", ["10.9.0.1/24"], ["10.0.0.1/24"], true, [
      "10.0.0.1/24",
    ]],
    [
      "another prefix length",
      ["10.0.0.1/16"],
      ["10.0.0.1/24"],
      false,
      '"br0" already has an IP address different from 10.0.0.1/24',
    ],
    [
      "another prefix length, by force",
      ["10.0.0.1/16"],
      ["10.0.0.1/24"],
      true,
      ["10.0.0.1/24"],
    ],
    [
      "an overlapping IPv6 subnet",
      ["fd00::2/64"],
      ["fd00::1/64"],
      false,
      '"br0" already has an IP address different from fd00::1/64',
    ],
    [
      "an overlapping IPv6 subnet, by force",
      ["fd00::2/64"],
      ["fd00::1/64"],
      true,
      ["fd00::1/64"],
    ],
    ["another IPv6 subnet", ["fd01::1/64"], ["fd00::1/64"], false, [
      "fd00::1/64",
      "fd01::1/64",
    ]],
    ["another IPv6 subnet, by force", ["fd01::1/64"], ["fd00::1/64"], true, [
      "fd00::1/64",
      "fd01::1/64",
    ]],
    ["the other family", ["fd01::1/64"], ["10.0.0.1/24"], false, [
      "10.0.0.1/24",
      "fd01::1/64",
    ]],
    [
      "two IPv4 subnets of one attachment",
      ["10.0.0.1/24"],
      ["10.0.0.1/24", "10.1.0.1/24"],
      false,
      ["10.0.0.1/24", "10.1.0.1/24"],
    ],
    [
      "two of one subnet go by force",
      ["10.9.0.1/24", "10.9.0.2/24"],
      ["10.0.0.1/24"],
      true,
      ["10.0.0.1/24"],
    ],
    ["a link-local gateway", [], ["fe80::1/64"], false, ["fe80::1/64"]],
  ];
  await eachRow(t, rows, ([, present, gateways, force, want]) => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    using rtnl = Rtnl.open(host.path);
    const link = rtnl.link.addBridge({ name: "br0" });
    for (const one of present) {
      runIn(host, "ip", "addr", "add", one, "dev", "br0", "nodad");
    }
    const ensure = (): void =>
      ensureGatewayAddresses(rtnl, link, {
        gateways: gateways.map(Cidr.parse),
        force,
      });
    if (typeof want === "string") {
      assertEquals(assertThrows(ensure, CniError).message, want);
      assertEquals([addressesOf(hosts), acceptRaOf(hosts)], [present, "1"]);
    } else {
      ensure();
      assertEquals(addressesOf(hosts), want);
    }
  });
});

/** Lists the addresses of the bridge except the kernel's own. */
function addressesOf({ host }: TestHosts): string[] {
  return ipJson(host, "address", "show", "br0")[0].addr_info
    .map(({ local, prefixlen }: Record<string, unknown>) =>
      `${local}/${prefixlen}`
    )
    .filter((address: string) => !/^fe80::.{3,}\//.test(address)).sort();
}

function acceptRaOf({ host }: TestHosts): string {
  return runIn(host, "sysctl", "-n", "net.ipv6.conf.br0.accept_ra").trim();
}

rootTest("a gateway bridge ignores router advertisements", async (t) => {
  const rows: [name: string, setup: string[], want: string][] = [
    ["a container must not be one", [], "0"],
    ["the host has one over it", [
      "-6 route add default via fe80::1 dev br0 proto ra",
    ], "1"],
    ["it may be behind a port", [
      "link add port0 type ifb",
      "link set port0 master br0",
    ], "1"],
    ["another port is a container's", [
      "link add veth0 type veth peer name veth1",
      "link set veth0 master br0",
    ], "0"],
    ["the host has an address from one", [
      "address add 2001:db8::5/64 dev br0 valid_lft 1000 preferred_lft 1000",
    ], "1"],
  ];
  await eachRow(t, rows, ([, setup, want]) => {
    using hosts = TestHosts.create();
    using rtnl = Rtnl.open(hosts.host.path);
    const lines = ["link add br0 type bridge", "link set br0 up", ...setup];
    for (const line of lines) runIn(hosts.host, "ip", ...line.split(" "));
    const gateways = [Cidr.parse("10.1.2.1/24")];
    const link = rtnl.link.get("br0");
    ensureGatewayAddresses(rtnl, link, { gateways, force: false });
    assertEquals(acceptRaOf(hosts), want);
  });
});
