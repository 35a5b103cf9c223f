import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { readSysctl } from "../../../ffi/sysctl.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { FaultInjector, type Moment } from "../../../testing/fault_injector.ts";
import { defaultRoutes } from "../testing/default_routes.ts";
import {
  ETH0,
  IPV6,
  NET1,
  TwoNetworks,
} from "../../../tests/_harness/two_networks.ts";
import { type DefaultRouteRequest, setDefaultRoutes } from "./gateways.ts";

/** Wishes: gateways, and families without any. */
type RequestText = string | IpFamily;

function requestOf(request: RequestText): DefaultRouteRequest {
  if (typeof request === "number") {
    return { family: request, gateway: undefined };
  }
  const gateway = Ip.parse(request);
  return { family: gateway.family, gateway };
}

function set(
  sandbox: NetNs,
  ifName: string,
  requests: readonly RequestText[],
): void {
  using rtnl = Rtnl.open(sandbox.path);
  setDefaultRoutes(rtnl, ifName, requests.map(requestOf));
}

interface Row {
  /** Arguments of `ip` in addition to the common ones. */
  readonly lines?: readonly string[];
  readonly ifName: "eth0" | "net1";
  readonly requests: readonly RequestText[];
  readonly expected: readonly string[];
}

const V4_ETH0 = "via 10.0.0.1 dev eth0";
const V6_ETH0 = "via 2001:db8:a::1 dev eth0 metric 1024";
const V4_NET1 = "via 192.168.1.1 dev net1";
const V6_NET1 = "via 2001:db8:1::1 dev net1 metric 1024";
const NO_V4 = "route del default via 10.0.0.1";
const NO_V6 = "route del default via 2001:db8:a::1";

const ROWS: Readonly<Record<string, Row>> = {
  "IPv4 goes, IPv6 stays": {
    ifName: "eth0",
    requests: [4],
    expected: [V6_ETH0],
  },
  "IPv6 goes, IPv4 stays": {
    ifName: "eth0",
    requests: [6],
    expected: [V4_ETH0],
  },
  "both go": { ifName: "eth0", requests: [4, 6], expected: [] },
  "an interface without a default route, none wanted": {
    ifName: "net1",
    requests: [4, 6],
    expected: [V4_ETH0, V6_ETH0],
  },
  "another gateway of the same interface": {
    ifName: "eth0",
    requests: ["10.0.0.254"],
    expected: ["via 10.0.0.254 dev eth0", V6_ETH0],
  },
  "a gateway of another interface": {
    lines: [NO_V4, NO_V6],
    ifName: "net1",
    requests: ["192.168.1.1", "2001:db8:1::1"],
    expected: [V4_NET1, V6_NET1],
  },
  "a link-local gateway": {
    lines: [NO_V6],
    ifName: "net1",
    requests: ["fe80::1"],
    expected: [V4_ETH0, "via fe80::1 dev net1 metric 1024"],
  },
  "what is there already stays, with metric and MTU": {
    lines: [
      NO_V4,
      "route add default via 192.168.1.1 metric 100 mtu 1400",
      "route add default via 192.168.1.2 metric 50",
    ],
    ifName: "net1",
    requests: ["192.168.1.1"],
    expected: ["via 192.168.1.1 dev net1 metric 100 mtu 1400", V6_ETH0],
  },
  "all of several, whatever their metrics": {
    lines: [
      "route append default via 10.0.0.3",
      "route add default via 10.0.0.1 metric 100",
      "route add default dev eth0 metric 101",
    ],
    ifName: "eth0",
    requests: [4],
    expected: [V6_ETH0],
  },
  "a route that was added twice with different metrics": {
    lines: ["route add default via 10.0.0.1 metric 100"],
    ifName: "eth0",
    requests: ["10.0.0.1"],
    expected: [V4_ETH0, `${V4_ETH0} metric 100`, V6_ETH0],
  },
  "routes of other tables stay": {
    lines: ["route add default via 10.0.0.1 table 100"],
    ifName: "eth0",
    requests: [4],
    expected: [V6_ETH0, `${V4_ETH0} table 100`],
  },
  "halves of everything, and refusals, stay": {
    lines: [
      "route add 0.0.0.0/1 via 10.0.0.1",
      "route add unreachable default metric 4000",
    ],
    ifName: "eth0",
    requests: [4],
    expected: [
      "0.0.0.0/1 via 10.0.0.1 dev eth0",
      "unreachable metric 4000",
      V6_ETH0,
    ],
  },
  "another interface's with a higher metric": {
    lines: [NO_V4, "route add default via 10.0.0.1 metric 10"],
    ifName: "net1",
    requests: ["192.168.1.1"],
    expected: [V4_NET1, `${V4_ETH0} metric 10`, V6_ETH0],
  },
  "ways of one IPv6 route: only the interface's go": {
    lines: ["route append default via 2001:db8:1::1 dev net1"],
    ifName: "net1",
    requests: [6],
    expected: [V4_ETH0, V6_ETH0],
  },
  "ways of one IPv4 route: only the interface's go": {
    lines: [
      NO_V4,
      "route add default nexthop via 10.0.0.1 dev eth0 weight 3 " +
      "nexthop via 192.168.1.1 dev net1 nexthop via 10.0.0.3 dev eth0",
    ],
    ifName: "net1",
    requests: [4],
    expected: [
      "nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.3 dev eth0",
      V6_ETH0,
    ],
  },
  "one way of several over the same interface": {
    lines: ["route append default via 2001:db8:a::3 dev eth0"],
    ifName: "eth0",
    requests: ["2001:db8:a::3"],
    expected: [V4_ETH0, "via 2001:db8:a::3 dev eth0 metric 1024"],
  },
  "one that a router has advertised": {
    lines: [NO_V6, "route add default via fe80::1 dev eth0 proto ra"],
    ifName: "eth0",
    requests: [6],
    expected: [V4_ETH0],
  },
  "a gateway that a /32 cannot say to be on the link": {
    lines: [
      NO_V4,
      "address flush dev net1",
      "address add 192.168.7.7/32 dev net1",
    ],
    ifName: "net1",
    requests: ["169.254.1.1"],
    expected: ["via 169.254.1.1 dev net1 onlink", V6_ETH0],
  },
  "a gateway that a /128 cannot say to be on the link": {
    lines: [
      NO_V6,
      "address flush dev net1",
      "address add fd00::7/128 dev net1 nodad",
    ],
    ifName: "net1",
    requests: ["fd00::1"],
    expected: [V4_ETH0, "via fd00::1 dev net1 metric 1024 onlink"],
  },
  "a gateway on a subnet whose route was moved to another table": {
    lines: [
      NO_V4,
      "route flush dev net1",
      "route add 192.168.1.0/24 dev net1 table 100",
    ],
    ifName: "net1",
    requests: ["192.168.1.1"],
    expected: [`${V4_NET1} onlink`, V6_ETH0],
  },
};

rootTest("setDefaultRoutes() keeps existing requested routes", async (t) => {
  for (
    const [name, { lines = [], ifName, requests, expected }] of Object.entries(
      ROWS,
    )
  ) {
    await t.step(name, () => {
      using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6, ...lines]);
      set(networks.sandbox, ifName, requests);
      assertEquals(defaultRoutes(networks.sandbox), [...expected]);
      // What is as it should be stays so.
      set(networks.sandbox, ifName, requests);
      assertEquals(defaultRoutes(networks.sandbox), [...expected]);
    });
  }
});

interface Refusal {
  readonly lines?: readonly string[];
  readonly ifName?: string;
  readonly requests: readonly RequestText[];
  readonly message: string;
}

const via = (gateway: string, ifName = "net1"): string =>
  `Cannot set default route via ${gateway} of "${ifName}": `;

const REFUSALS: Readonly<Record<string, Refusal>> = {
  "a gateway that is elsewhere": {
    lines: [NO_V4, "route add default via 192.168.1.1 metric 5"],
    requests: ["192.168.99.1"],
    message: via("192.168.99.1") + "the gateway is not in 192.168.1.0/24",
  },
  "a gateway that is elsewhere, for the second of two families": {
    lines: [NO_V4, NO_V6],
    requests: ["192.168.1.1", "2001:db8:99::1"],
    message: via("2001:db8:99::1") + "the gateway is not in 2001:db8:1::/64",
  },
  "a gateway of a family that the interface has no address of": {
    lines: [NO_V6, "address del 2001:db8:1::209/64 dev net1"],
    requests: ["2001:db8:1::1"],
    message: via("2001:db8:1::1") + "the interface has no IPv6 address",
  },
  "another interface's default route with the same metric": {
    requests: ["192.168.1.1"],
    message: via("192.168.1.1") +
      'the default route via 10.0.0.1 over "eth0" with metric 0 conflicts with it',
  },
  "another interface's default route with a lower metric": {
    lines: [
      NO_V4,
      "route add default via 192.168.1.1 metric 7",
      "route add default dev eth0 metric 6",
    ],
    requests: ["192.168.1.1"],
    message: via("192.168.1.1") +
      'the default route over "eth0" with metric 6 conflicts with it',
  },
  "another interface's way of the same IPv6 route": {
    lines: ["route append default via 2001:db8:1::1 dev net1"],
    requests: ["2001:db8:1::1"],
    message: via("2001:db8:1::1") +
      "the default route via 2001:db8:a::1, 2001:db8:1::1 " +
      'over "eth0" with metric 1024 conflicts with it',
  },
  "an interface that is not there": {
    ifName: "net9",
    requests: ["192.168.1.1", "2001:db8:1::1"],
    message: via("192.168.1.1, 2001:db8:1::1", "net9") +
      "there is no such interface",
  },
};

rootTest("setDefaultRoutes() refuses an invalid gateway", async (t) => {
  for (const [name, row] of Object.entries(REFUSALS)) {
    const { lines = [], ifName = "net1", requests, message } = row;
    await t.step(name, () => {
      using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6, ...lines]);
      const before = takeStock(networks);
      const error = assertThrows(
        () => set(networks.sandbox, ifName, requests),
        CniError,
        message,
      );
      assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
      assertEquals(takeStock(networks), before);
    });
  }
});

rootTest("setDefaultRoutes() ignores missing links if allowed", () => {
  using networks = new TwoNetworks();
  set(networks.sandbox, "net9", [4, 6]);
  assertEquals(defaultRoutes(networks.sandbox), [V4_ETH0]);
});

function acceptsRouters({ sandbox }: TwoNetworks): string {
  const key = "net/ipv6/conf/net1/accept_ra_defrtr";
  return inNetns(sandbox, () => readSysctl(key));
}

rootTest("setDefaultRoutes() disables router advertisements", () => {
  using networks = new TwoNetworks();
  set(networks.sandbox, "net1", [4]);
  assertEquals(acceptsRouters(networks), "1");
  set(networks.sandbox, "net1", [4, 6]);
  assertEquals(acceptsRouters(networks), "0");
});

rootTest("setDefaultRoutes() undoes itself after any failure", async (t) => {
  for (const moment of ["instead", "afterwards"] as const) {
    for (let step = 1, isThere = true; isThere; step++) {
      isThere = false;
      await t.step(`step ${step}, ${moment}`, () => {
        isThere = failAt(step, moment);
        assert(isThere || step === 10, `only ${step} steps`);
      });
    }
  }
});

/** @returns Whether there is such a step */
function failAt(step: number, moment: Moment): boolean {
  using networks = new TwoNetworks([
    ...ETH0,
    ...NET1,
    ...IPV6,
    NO_V4,
    // Two nexthops, one to delete, so that there is a step of each kind.
    "route add default metric 100 nexthop via 10.0.0.1 dev eth0 " +
    "nexthop via 192.168.1.9 dev net1",
    "route add default via 192.168.1.8 metric 5 mtu 1400",
    "route append default via 2001:db8:1::1 dev net1 metric 2048",
    NO_V6,
  ]);
  const before = takeStock(networks);
  const { failure, steps } = setWithFault(networks.sandbox, step, moment);
  const failed = steps[step - 1];
  // That parameters cannot be written is put up with.
  if (failed !== undefined && !failed.startsWith("write ")) {
    assertStringIncludes(describeError(failure), `injected into ${failed}`);
    assertEquals(takeStock(networks), before, `${steps}`);
  }
  return failed !== undefined;
}

function takeStock(networks: TwoNetworks): unknown {
  return [networks.routes().sort(), acceptsRouters(networks)];
}

function setWithFault(
  sandbox: NetNs,
  step: number,
  moment: Moment,
): { readonly failure: unknown; readonly steps: readonly string[] } {
  using injector = new FaultInjector(step, moment);
  try {
    set(sandbox, "net1", ["192.168.1.1", "2001:db8:1::2"]);
    return { failure: undefined, steps: injector.steps };
  } catch (failure) {
    return { failure, steps: injector.steps };
  }
}
