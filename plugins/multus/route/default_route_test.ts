import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import {
  defaultRoutes,
  delegatesWith,
  type Gateways,
} from "../testing/default_routes.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import {
  ETH0,
  IPV6,
  NET1,
  TwoNetworks,
} from "../../../tests/_harness/two_networks.ts";
import type { Delegate } from "../model/delegate.ts";
import { markDefaultRoutes } from "../select/default_route_marks.ts";
import { applyDefaultRoute } from "./default_route.ts";

/** The results of the two interfaces' plugins. */
const RESULTS: Readonly<Record<"eth0" | "net1", JsonObject>> = {
  eth0: {
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", sandbox: "/run/netns/c1" }],
    ips: [{ address: "10.0.0.2/24", interface: 0, gateway: "10.0.0.1" }],
    routes: [
      { dst: "10.2.0.0/24", gw: "10.0.0.5" },
      { dst: "0.0.0.0/0" },
      { dst: "::/0", gw: "2001:db8:a::1" },
    ],
  },
  net1: {
    cniVersion: "0.2.0",
    ip4: { ip: "192.168.1.209/24" },
    ip6: { ip: "2001:db8:1::209/64" },
  },
};
const LISTED: Readonly<Record<"eth0" | "net1", readonly string[]>> = {
  eth0: [" 0.0.0.0/0", "2001:db8:a::1 ::/0"],
  net1: [],
};
const KERNEL = [
  "via 10.0.0.1 dev eth0",
  "via 2001:db8:a::1 dev eth0 metric 1024",
];
const NO_DEFAULT = "route del default via 10.0.0.1";
const V4_NET1 = "via 192.168.1.1 dev net1";
const V6_NET1 = "via 2001:db8:1::1 dev net1 metric 1024";

/** Lists the default routes that a result has, as `gateway destination`. */
function listDefaults(document: JsonObject): string[] {
  const { routes, ip4, ip6 } = document as Record<string, JsonObject>;
  return [routes, ip4?.["routes"], ip6?.["routes"]].flat()
    .flatMap((route) => {
      const { dst, gw = "" } = (route ?? {}) as Record<string, string>;
      return dst?.endsWith("/0") ? [`${gw} ${dst}`] : [];
    });
}

interface Row {
  readonly eth0?: Gateways;
  readonly net1?: Gateways;
  readonly kernel: readonly string[];
  readonly listed: Readonly<Record<"eth0" | "net1", readonly string[]>>;
}

const ROWS: Readonly<Record<string, Row>> = {
  "nobody asks": { kernel: KERNEL, listed: LISTED },
  "empty lists ask for nothing": {
    eth0: [],
    net1: [],
    kernel: KERNEL,
    listed: LISTED,
  },
  "IPv4 of the second network": {
    net1: ["192.168.1.1"],
    kernel: [V4_NET1, "via 2001:db8:a::1 dev eth0 metric 1024"],
    listed: { eth0: ["2001:db8:a::1 ::/0"], net1: ["192.168.1.1 0.0.0.0/0"] },
  },
  "IPv6 of the second network": {
    net1: ["2001:db8:1::1"],
    kernel: ["via 10.0.0.1 dev eth0", V6_NET1],
    listed: { eth0: [" 0.0.0.0/0"], net1: ["2001:db8:1::1 ::/0"] },
  },
  "both of the second network": {
    net1: ["2001:db8:1::1", "192.168.1.1"],
    kernel: [V4_NET1, V6_NET1],
    listed: { eth0: [], net1: ["192.168.1.1 0.0.0.0/0", "2001:db8:1::1 ::/0"] },
  },
  "one of each": {
    eth0: ["10.0.0.9"],
    net1: ["2001:db8:1::1"],
    kernel: ["via 10.0.0.9 dev eth0", V6_NET1],
    listed: { eth0: ["10.0.0.9 0.0.0.0/0"], net1: ["2001:db8:1::1 ::/0"] },
  },
  "what the first network has anyway": {
    eth0: ["10.0.0.1", "2001:db8:a::1"],
    kernel: KERNEL,
    listed: { eth0: ["10.0.0.1 0.0.0.0/0", "2001:db8:a::1 ::/0"], net1: [] },
  },
};

rootTest("applyDefaultRoute() keeps kernel and results equal", async (t) => {
  await eachRow(t, Object.entries(ROWS), ([, row]) => {
    using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6]);
    const delegates = markDefaultRoutes(delegatesWith(row.eth0, row.net1));
    const args = { netns: networks.sandbox.path };
    const edited = (["eth0", "net1"] as const).map((ifName, position) => {
      const delegate = delegates[position] as Delegate;
      const document = RESULTS[ifName];
      const result = { ips: [] };
      const place = { args, ifName, delegate, delegates, result };
      const after = applyDefaultRoute({ ...place, document });
      assertEquals(applyDefaultRoute({ ...place, document: after }), after);
      return [ifName, listDefaults(after)];
    });
    assertEquals(defaultRoutes(networks.sandbox), [...row.kernel]);
    assertEquals(Object.fromEntries(edited), row.listed);
  });
});

rootTest(
  "applyDefaultRoute() accepts the network's gateway outside its subnet",
  () => {
    using networks = new TwoNetworks([...ETH0, ...NET1, NO_DEFAULT]);
    const delegates = markDefaultRoutes(
      delegatesWith(undefined, ["192.0.2.1"]),
    );
    const options = {
      args: { netns: networks.sandbox.path },
      ifName: "net1",
      delegate: delegates[1] as Delegate,
      delegates,
      document: RESULTS.net1,
    };
    const address = Cidr.parse("192.168.1.209/24");
    assertThrows(
      () => applyDefaultRoute({ ...options, result: { ips: [{ address }] } }),
      CniError,
      "the gateway is not in 192.168.1.0/24",
    );
    const ips = [{ address, gateway: Ip.parse("192.0.2.1") }];
    const after = applyDefaultRoute({ ...options, result: { ips } });
    assertEquals(listDefaults(after), ["192.0.2.1 0.0.0.0/0"]);
    assertEquals(defaultRoutes(networks.sandbox), [
      "via 192.0.2.1 dev net1 onlink",
    ]);
  },
);

Deno.test("applyDefaultRoute() does not open the namespace if no gateway is requested", () => {
  const delegates = delegatesWith([], undefined);
  const [delegate] = delegates as [Delegate];
  const document = RESULTS.eth0;
  const args = { netns: "/nowhere" };
  const options = {
    args,
    ifName: "eth0",
    delegate,
    delegates,
    document,
    result: { ips: [] },
  };
  assertStrictEquals(applyDefaultRoute(options), document);
});

Deno.test("applyDefaultRoute() fails with the code of the cause", async (t) => {
  const delegates = delegatesWith(["10.0.0.1"]);
  const [delegate] = delegates as [Delegate];
  const ask = {
    args: { netns: "/nowhere" },
    ifName: "eth0",
    delegate,
    delegates,
    result: { ips: [] },
  };
  await t.step("no namespace", () => {
    const document = RESULTS.eth0;
    const error = assertThrows(
      () => applyDefaultRoute({ ...ask, document }),
      CniError,
      'Cannot open network namespace "/nowhere"',
    );
    assertEquals(error.code, ErrorCode.InvalidNetns);
  });
  await t.step("a result of a different plugin", () => {
    const document = { cniVersion: "0.9.0" };
    const error = assertThrows(
      () => applyDefaultRoute({ ...ask, document }),
      CniError,
      "not supported version: 0.9.0",
    );
    assertEquals(error.code, ErrorCode.IncompatibleVersion);
  });
});
