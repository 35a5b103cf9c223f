import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { decodeResult } from "../../../cni/result/decoding.ts";
import type { Route } from "../../../cni/result/result.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { FaultInjector, type Moment } from "../../../testing/fault_injector.ts";
import {
  ETH0,
  IPV6,
  NET1,
  TwoNetworks,
} from "../../../tests/_harness/two_networks.ts";
import { applyPodRoutes, checkPodRoutes } from "./pod_routes.ts";

/** A route as the annotation has it. */
type Asked = Omit<Route, "dst" | "gw"> & {
  readonly dst: string;
  readonly gw?: string;
};

const WITHOUT_GATEWAY: JsonObject = {
  cniVersion: "1.0.0",
  interfaces: [{ name: "net1", sandbox: "/run/netns/c1" }],
  ips: [
    { address: "192.168.1.209/24", interface: 0 },
    { address: "2001:db8:1::209/64", interface: 0 },
  ],
};
const WITH_GATEWAYS: JsonObject = {
  ...WITHOUT_GATEWAY,
  ips: [
    { address: "192.168.1.209/24", interface: 0, gateway: "192.168.1.1" },
    { address: "2001:db8:1::209/64", gateway: "2001:db8:1::1", interface: 0 },
  ],
};

function optionsOf(
  { sandbox }: TwoNetworks,
  asked: readonly Asked[],
  document: JsonObject,
  ifName = "net1",
): Parameters<typeof applyPodRoutes>[0] {
  return {
    args: { netns: sandbox.path },
    ifName,
    routes: asked.map(({ dst, gw, ...others }) => ({
      dst: Cidr.parse(dst),
      gw: gw === undefined ? undefined : Ip.parse(gw),
      ...others,
    })),
    result: decodeResult(document),
  };
}

function apply(
  networks: TwoNetworks,
  asked: readonly Asked[],
  document: JsonObject = WITHOUT_GATEWAY,
  ifName = "net1",
): JsonObject {
  const options = optionsOf(networks, asked, document, ifName);
  return applyPodRoutes(options, document);
}

interface Row {
  readonly lines?: readonly string[];
  readonly document?: JsonObject;
  readonly asked: readonly Asked[];
  /** What `ip` shows beyond what was there. */
  readonly added: readonly string[];
  /** The routes that the result has then. */
  readonly listed: readonly JsonObject[];
}

const DST = "10.50.0.0/16", DST6 = "fd50::/16";
const GW = "192.168.1.7", GW6 = "2001:db8:1::7";

const ROWS: Readonly<Record<string, Row>> = {
  "both families by their gateways": {
    asked: [{ dst: DST, gw: GW }, { dst: "fd50:7::/16", gw: GW6 }],
    added: [
      `${DST} via ${GW} dev net1`,
      `${DST6} via ${GW6} dev net1 metric 1024`,
    ],
    listed: [{ dst: DST, gw: GW }, { dst: DST6, gw: GW6 }],
  },
  "the network's gateways, where none is named": {
    document: WITH_GATEWAYS,
    asked: [{ dst: "10.50.3.4/16" }, { dst: DST6 }],
    added: [
      `${DST} via 192.168.1.1 dev net1`,
      `${DST6} via 2001:db8:1::1 dev net1 metric 1024`,
    ],
    listed: [
      { dst: DST, gw: "192.168.1.1" },
      { dst: DST6, gw: "2001:db8:1::1" },
    ],
  },
  "metric, MTU, segment size and table": {
    asked: [
      { dst: DST, gw: GW, priority: 7, mtu: 1400, advmss: 1300 },
      { dst: "0.0.0.0/0", gw: GW, table: 100 },
      { dst: "10.60.0.0/16", gw: GW, table: 254 },
    ],
    added: [
      "10.60.0.0/16 via 192.168.1.7 dev net1",
      `${DST} via ${GW} dev net1 metric 7 mtu 1400 advmss 1300`,
      `default via ${GW} dev net1 table 100`,
    ],
    listed: [
      { dst: DST, gw: GW, mtu: 1400, advmss: 1300, priority: 7 },
      { dst: "0.0.0.0/0", gw: GW, table: 100 },
      { dst: "10.60.0.0/16", gw: GW, table: 254 },
    ],
  },
  "destinations on the link, although the network has gateways": {
    document: WITH_GATEWAYS,
    asked: [
      { dst: "224.0.0.0/4", scope: 253 },
      { dst: DST6, scope: 253 },
    ],
    added: [
      "224.0.0.0/4 dev net1 scope link",
      `${DST6} dev net1 metric 1024`,
    ],
    listed: [{ dst: "224.0.0.0/4", scope: 253 }, { dst: DST6, scope: 253 }],
  },
  "what the network's plugins have made is not made again": {
    document: {
      ...WITH_GATEWAYS,
      routes: [{ dst: "192.168.2.0/24", gw: "192.168.1.2", x: 1 }],
    },
    asked: [{ dst: "192.168.2.0/24", gw: "192.168.1.2" }],
    added: [],
    listed: [{ dst: "192.168.2.0/24", gw: "192.168.1.2", x: 1 }],
  },
  "a destination of another network with another metric": {
    asked: [{ dst: "10.2.0.0/24", gw: GW, priority: 9 }],
    added: [`10.2.0.0/24 via ${GW} dev net1 metric 9`],
    listed: [{ dst: "10.2.0.0/24", gw: GW, priority: 9 }],
  },
  "a part of what another network's router has": {
    asked: [{ dst: "10.2.0.128/25", gw: GW }],
    added: [`10.2.0.128/25 via ${GW} dev net1`],
    listed: [{ dst: "10.2.0.128/25", gw: GW }],
  },
  "a part of the network's own subnet": {
    asked: [{ dst: "192.168.1.128/25", gw: GW }],
    added: [`192.168.1.128/25 via ${GW} dev net1`],
    listed: [{ dst: "192.168.1.128/25", gw: GW }],
  },
  "link-local multicast, which every interface has": {
    asked: [{ dst: "ff05::/16", scope: 253 }],
    added: ["ff05::/16 dev net1 metric 1024"],
    listed: [{ dst: "ff05::/16", scope: 253 }],
  },
  "a gateway on a subnet whose route sbr has moved": {
    lines: [
      "route flush dev net1",
      "route add 192.168.1.0/24 dev net1 table 100",
    ],
    asked: [{ dst: DST, gw: GW }],
    added: [`${DST} via ${GW} dev net1 onlink`],
    listed: [{ dst: DST, gw: GW }],
  },
  "a gateway that a /32 cannot say to be on the link": {
    lines: ["address flush dev net1", "address add 192.168.7.7/32 dev net1"],
    asked: [{ dst: DST, gw: "169.254.1.1" }],
    added: [`${DST} via 169.254.1.1 dev net1 onlink`],
    listed: [{ dst: DST, gw: "169.254.1.1" }],
  },
  "the network's gateway outside its subnet": {
    document: {
      ...WITHOUT_GATEWAY,
      ips: [{
        address: "192.168.1.209/24",
        interface: 0,
        gateway: "192.0.2.1",
      }],
    },
    asked: [{ dst: DST }, { dst: "10.60.0.0/16", gw: "192.0.2.1" }],
    added: [
      `${DST} via 192.0.2.1 dev net1 onlink`,
      "10.60.0.0/16 via 192.0.2.1 dev net1 onlink",
    ],
    listed: [
      { dst: DST, gw: "192.0.2.1" },
      { dst: "10.60.0.0/16", gw: "192.0.2.1" },
    ],
  },
};

rootTest("applyPodRoutes() adds routes to kernel and result", async (t) => {
  for (const [name, row] of Object.entries(ROWS)) {
    const { lines = [], document = WITHOUT_GATEWAY, asked } = row;
    await t.step(name, () => {
      using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6, ...lines]);
      const before = networks.routes();
      const edited = apply(networks, asked, document);
      const added = networks.routes().filter((one) => !before.includes(one));
      assertEquals(added.sort(), [...row.added].sort());
      assertEquals(edited["routes"], [...row.listed]);
      checkPodRoutes(optionsOf(networks, asked, document));
      // What is there already stays so.
      assertEquals(apply(networks, asked, edited), edited);
    });
  }
});

interface Refusal {
  readonly lines?: readonly string[];
  readonly ifName?: string;
  readonly asked: readonly Asked[];
  readonly message: string;
}

const cannot = (route: string, why: string, ifName = "net1"): string =>
  `Cannot add route ${route} of "dev.cni.routes" to "${ifName}": ${why}`;

const REFUSALS: Readonly<Record<string, Refusal>> = {
  "no gateway, neither named nor of the network": {
    asked: [{ dst: DST, gw: GW }, { dst: DST6 }],
    message: cannot(
      DST6,
      'the network has no IPv6 gateway: the route needs "gw", or ' +
        '"scope": 253 if its destination is on the link',
    ),
  },
  "a gateway that is elsewhere": {
    asked: [{ dst: "fd60::/16", gw: GW6 }, { dst: DST, gw: "10.0.0.1" }],
    message: cannot(
      `${DST} via 10.0.0.1`,
      "the gateway is not in 192.168.1.0/24",
    ),
  },
  "an IPv6 gateway that is elsewhere": {
    asked: [{ dst: DST6, gw: "2001:db8:99::1" }],
    message: cannot(
      `${DST6} via 2001:db8:99::1`,
      "the gateway is not in 2001:db8:1::/64",
    ),
  },
  "a family that the interface has no address of": {
    lines: [
      "address del fe80::209/64 dev net1",
      "address del 2001:db8:1::209/64 dev net1",
    ],
    asked: [{ dst: DST6, scope: 253 }],
    message: cannot(DST6, "the interface has no IPv6 address"),
  },
  "a gateway of a family with link-local addresses only": {
    lines: ["address del 2001:db8:1::209/64 dev net1"],
    asked: [{ dst: DST6, gw: GW6 }],
    message: cannot(`${DST6} via ${GW6}`, "the interface has no IPv6 address"),
  },
  "a destination that another network has": {
    asked: [{ dst: DST, gw: GW }, { dst: "10.2.0.0/24", gw: GW }],
    message: cannot(
      `10.2.0.0/24 via ${GW}`,
      'the route to 10.2.0.0/24 over "eth0" conflicts with it',
    ),
  },
  "the cluster network's own subnet": {
    asked: [{ dst: "10.0.0.0/24", gw: GW }],
    message: cannot(
      `10.0.0.0/24 via ${GW}`,
      'the route to 10.0.0.0/24 over "eth0" conflicts with it',
    ),
  },
  "the cluster network's gateway": {
    asked: [{ dst: "10.0.0.1/32", gw: GW, priority: 5 }],
    message: cannot(
      `10.0.0.1/32 via ${GW}`,
      'the route to 10.0.0.0/24 over "eth0" conflicts with it',
    ),
  },
  "a neighbour of the cluster network": {
    asked: [{ dst: "2001:db8:a::3/128", gw: GW6 }],
    message: cannot(
      `2001:db8:a::3/128 via ${GW6}`,
      'the route to 2001:db8:a::/64 over "eth0" conflicts with it',
    ),
  },
  "another gateway for what the network's plugins have made": {
    asked: [{ dst: "192.168.2.0/24", gw: GW }],
    message: cannot(
      `192.168.2.0/24 via ${GW}`,
      'the route to 192.168.2.0/24 over "net1" conflicts with it',
    ),
  },
  "a destination that the sandbox refuses": {
    lines: [`route add unreachable ${DST}`],
    asked: [{ dst: DST, gw: GW }],
    message: cannot(
      `${DST} via ${GW}`,
      `the route to ${DST} conflicts with it`,
    ),
  },
  "an interface that is not there": {
    ifName: "net9",
    asked: [{ dst: DST, gw: GW }],
    message: cannot(
      `${DST} via ${GW}`,
      "there is no such interface",
      "net9",
    ),
  },
};

rootTest("applyPodRoutes() refuses invalid routes", async (t) => {
  for (const [name, row] of Object.entries(REFUSALS)) {
    const { lines = [], ifName, asked, message } = row;
    await t.step(name, () => {
      using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6, ...lines]);
      const before = networks.routes();
      const error = assertThrows(
        () => apply(networks, asked, WITHOUT_GATEWAY, ifName),
        CniError,
      );
      assertEquals(error.message, message);
      assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
      assertEquals(networks.routes(), before);
    });
  }
});

const ASKED: readonly Asked[] = [
  { dst: DST, gw: GW, priority: 7, mtu: 1400 },
  { dst: DST6, gw: GW6 },
  { dst: "10.60.0.0/16", gw: GW, table: 100 },
];

rootTest("applyPodRoutes() undoes everything after any failure", async (t) => {
  for (const moment of ["instead", "afterwards"] as const) {
    for (let step = 1, isThere = true; isThere; step++) {
      isThere = false;
      await t.step(`step ${step}, ${moment}`, () => {
        isThere = failAt(step, moment);
        assert(isThere || step === 8, `only ${step} steps`);
      });
    }
  }
});

/** @returns Whether there is such a step */
function failAt(step: number, moment: Moment): boolean {
  using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6]);
  const before = networks.routes();
  using injector = new FaultInjector(step, moment);
  try {
    apply(networks, ASKED);
    return false;
  } catch (failure) {
    const failed = injector.steps[step - 1];
    assertStringIncludes(describeError(failure), `injected into ${failed}`);
    assertEquals(networks.routes(), before, `${injector.steps}`);
    return true;
  }
}

const TAMPERINGS: Readonly<Record<string, readonly string[]>> = {
  "it is gone": [`route del ${DST}`],
  "it has another gateway": [
    `route del ${DST}`,
    `route add ${DST} via 192.168.1.8 metric 7 mtu 1400`,
  ],
  "it has another metric": [
    `route del ${DST}`,
    `route add ${DST} via ${GW} metric 8 mtu 1400`,
  ],
  "it has another MTU": [
    `route del ${DST}`,
    `route add ${DST} via ${GW} metric 7 mtu 1300`,
  ],
  "it is in another table": [
    `route del ${DST}`,
    `route add ${DST} via ${GW} metric 7 mtu 1400 table 100`,
  ],
  "it leaves by another interface": [
    `route del ${DST}`,
    `route add ${DST} via ${GW} dev eth0 onlink metric 7 mtu 1400`,
  ],
};

rootTest("checkPodRoutes() reports a missing route", async (t) => {
  for (const [name, lines] of Object.entries(TAMPERINGS)) {
    await t.step(name, () => {
      using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6]);
      apply(networks, ASKED);
      networks.ip(...lines);
      const error = assertThrows(
        () => checkPodRoutes(optionsOf(networks, ASKED, WITHOUT_GATEWAY)),
        CniError,
      );
      assertEquals(
        error.message,
        `Interface "net1" lacks route ${DST} via ${GW} of "dev.cni.routes"`,
      );
    });
  }
});

rootTest("checkPodRoutes() names every route of a deleted link", () => {
  using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6]);
  const error = assertThrows(
    () => checkPodRoutes(optionsOf(networks, ASKED, WITHOUT_GATEWAY, "net9")),
    CniError,
    `Interface "net9" lacks route ${DST} via ${GW} of "dev.cni.routes"`,
  );
  assertStringIncludes(error.details ?? "", `route ${DST6} via ${GW6}`);
  assertStringIncludes(error.details ?? "", "route 10.60.0.0/16");
});
