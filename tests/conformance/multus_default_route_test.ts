/**
 * What others rely on in multus: the default routes that pods ask for, in the
 * kernel, in the cached results and in the status.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { AttachmentCache } from "../../libcni/cache.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import type { Delegate } from "../../plugins/multus/model/delegate.ts";
import {
  buildNetworkStatus,
  type NetworkStatus,
} from "../../plugins/multus/report/network_status.ts";
import { applyDefaultRoute } from "../../plugins/multus/route/default_route.ts";
import { setDefaultRoutes } from "../../plugins/multus/route/gateways.ts";
import {
  addDefaultRoutes,
  dropDefaultRoutes,
} from "../../plugins/multus/route/result_routes.ts";
import { markDefaultRoutes } from "../../plugins/multus/select/default_route_marks.ts";
import {
  defaultRoutes,
  delegatesWith,
  type Gateways,
} from "../../plugins/multus/testing/default_routes.ts";
import { canUseNetns, ignoreUnless } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { assertSuccess } from "../_harness/call_outcome.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { IPV6, NET1, TwoNetworks } from "../_harness/two_networks.ts";

const INTERFACES = ["eth0", "net1"] as const;

/** One of the pod's interfaces. */
type PodInterface = typeof INTERFACES[number];

/** The properties of a network. */
interface PodNetwork {
  /** Of which the first address is the router's. */
  readonly subnets: readonly string[];
  /** The default routes that its plugin makes. */
  readonly defaults?: readonly JsonObject[];
  /** Version of its plugin's results; the newest if undefined. */
  readonly cniVersion?: string;
}

/** The pod. */
class PodNetworks implements Disposable {
  readonly #hosts = TestHosts.create();
  readonly #delegates: readonly Delegate[];
  /** Where results are remembered. */
  readonly cache: AttachmentCache = new AttachmentCache(this.#hosts.directory);
  /** The annotation's entry for each attachment. */
  readonly statuses: NetworkStatus[] = [];

  /** @param requests The gateways that each network is asked to have */
  constructor(requests: { readonly [Name in PodInterface]?: Gateways }) {
    const { eth0, net1 } = requests;
    this.#delegates = markDefaultRoutes(delegatesWith(eth0, net1));
  }

  /** Its namespace. */
  get sandbox(): NetNs {
    return this.#hosts.sandbox;
  }

  /**
   * Runs ADD for an interface, and what comes after it.
   *
   * @returns What the plugin answered, with the default routes that there are
   */
  async attach(
    ifName: PodInterface,
    { subnets, defaults = [], cniVersion = "1.1.0" }: PodNetwork,
  ): Promise<JsonObject> {
    const network = `of-${ifName}`;
    const ipam = { ...this.#hosts.hostLocal(...subnets), routes: defaults };
    const config = {
      cniVersion,
      name: network,
      type: "bridge",
      bridge: `br-${ifName}`,
      isGateway: true,
      ipam,
    };
    const added = await this.#hosts.run("bridge", "ADD", config, { ifName });
    assertSuccess(added);
    const key = { network, containerId: "test-container", ifName };
    this.cache.writeAttachment({
      ...key,
      netns: this.sandbox.path,
      config: new TextEncoder().encode(JSON.stringify(config)),
      cniArgs: [],
      capabilityArgs: {},
    }, added.json);
    const index = INTERFACES.indexOf(ifName);
    const document = this.#route(ifName, index, added.json);
    this.cache.replaceResult(key, document);
    return document;
  }

  #route(ifName: string, index: number, document: JsonObject): JsonObject {
    const delegate = this.#delegates[index] as Delegate;
    const routed = applyDefaultRoute({
      args: { netns: this.sandbox.path },
      ifName,
      delegate,
      delegates: this.#delegates,
      document,
      result: decodeResult(document),
    });
    this.statuses.push(...buildNetworkStatus({
      delegate,
      isMaster: index === 0,
      result: decodeResult(routed),
    }));
    return routed;
  }

  /** Lists the default routes of the sandbox. */
  defaults(): string[] {
    return defaultRoutes(this.sandbox);
  }

  /** Returns the interface for packets to an address; undefined if unreachable. */
  leavesBy(address: string): string | undefined {
    try {
      return ipJson(this.sandbox, "route", "get", address)[0].dev;
    } catch {
      return undefined;
    }
  }

  /** Reads the default routes of the remembered results, as `gateway destination`. */
  remembered(): string[] {
    return this.cache.listAttachments().flatMap(({ result = {} }) =>
      decodeResult(result).routes
        .filter(({ dst }) => dst.prefixLength === 0)
        .map(({ dst, gw }) => `${gw ?? "-"} ${dst}`)
    );
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }
}

const AREA = "multus default-route";
const root = ignoreUnless(canUseNetns, "needs root");

// 19: marks

function marks(...requests: readonly Gateways[]): string {
  return markDefaultRoutes(delegatesWith(...requests))
    .map(({ isFilterV4Gateway, isFilterV6Gateway }) =>
      `${isFilterV4Gateway}/${isFilterV6Gateway}`
    ).join(" ");
}

conformance(AREA, {
  "19 default-route absent: both families are filtered": () => {
    assertEquals(marks(undefined, []), "true/true true/true");
  },
  "19 no default-route: nothing is filtered": () => {
    assertEquals(marks(undefined, undefined), "false/false false/false");
  },
  "19 an empty default-route is not an absent one": () => {
    const [delegate] = markDefaultRoutes(delegatesWith([]));
    assertEquals(delegate?.request.defaultRoute, []);
    assertEquals(marks([]), "true/true");
  },
  "19 an IPv4 gateway: IPv6 is filtered": () => {
    assertEquals(marks(["10.1.1.1"]), "false/true");
  },
  "19 a gateway of each family: nothing is filtered": () => {
    assertEquals(marks(["10.1.1.1", "2001:db8::1"]), "false/false");
  },
  "19 two gateways of a family are refused": () => {
    const error = assertThrows(
      () => marks(["10.1.1.1"], ["10.1.1.2"]),
      CniError,
      "multus does not support ECMP for default-route",
    );
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
  },
});

// 21: the kernel

function setGateways(
  { sandbox }: TwoNetworks,
  ...wishes: readonly (IpFamily | string)[]
): void {
  using rtnl = Rtnl.open(sandbox.path);
  setDefaultRoutes(
    rtnl,
    "net1",
    wishes.map((wish) => {
      if (typeof wish === "number") return { family: wish, gateway: undefined };
      const gateway = Ip.parse(wish);
      return { family: gateway.family, gateway };
    }),
  );
}

const DEFAULT_NET1 = [
  "route add default via 192.168.1.1",
  "route add 192.168.0.0/16 via 192.168.1.1",
];
const DEFAULT_NET1_IPV6 = [
  ...IPV6.filter((line) => !line.includes("default")),
  "route add default via 2001:db8:1::1 dev net1",
];

conformance(AREA, {
  "21 the default route of an interface is deleted, other routes stay": () => {
    using networks = new TwoNetworks([...NET1, ...DEFAULT_NET1]);
    setGateways(networks, 4);
    assertEquals(defaultRoutes(networks.sandbox), []);
    assertEquals(networks.routes(), [
      "192.168.0.0/16 via 192.168.1.1 dev net1",
      "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
      "192.168.2.0/24 via 192.168.1.2 dev net1",
    ]);
  },
  "21 that of IPv6 is deleted, that of IPv4 stays": () => {
    using networks = new TwoNetworks([
      ...NET1,
      ...DEFAULT_NET1,
      ...DEFAULT_NET1_IPV6,
    ]);
    setGateways(networks, 6);
    assertEquals(defaultRoutes(networks.sandbox), [
      "via 192.168.1.1 dev net1",
    ]);
  },
  "21 a default route is set": () => {
    using networks = new TwoNetworks(NET1);
    setGateways(networks, "192.168.1.1");
    assertEquals(defaultRoutes(networks.sandbox), [
      "via 192.168.1.1 dev net1",
    ]);
  },
  "21 default routes of both families replace others": () => {
    using networks = new TwoNetworks([
      ...NET1,
      ...DEFAULT_NET1,
      ...DEFAULT_NET1_IPV6,
    ]);
    setGateways(networks, "192.168.1.7", "2001:db8:1::7");
    assertEquals(defaultRoutes(networks.sandbox), [
      "via 192.168.1.7 dev net1",
      "via 2001:db8:1::7 dev net1 metric 1024",
    ]);
  },
  "21 an existing default route is not a failure": () => {
    using networks = new TwoNetworks([...NET1, ...DEFAULT_NET1]);
    setGateways(networks, "192.168.1.1");
    setGateways(networks, "192.168.1.1");
    assertEquals(defaultRoutes(networks.sandbox), [
      "via 192.168.1.1 dev net1",
    ]);
  },
  "21 a gateway that cannot be reached is a failure": () => {
    using networks = new TwoNetworks(NET1);
    assertThrows(() => setGateways(networks, "10.9.9.9"), CniError);
    assertEquals(defaultRoutes(networks.sandbox), []);
  },
}, root);

// 22-25: the cache

const KEY = { network: "net", containerId: "c1", ifName: "net1" };

/** Replaces a remembered result, and reads it back. */
function throughCache(
  result: JsonObject,
  edit: (result: JsonObject) => JsonObject,
): JsonObject | undefined {
  const directory = Deno.makeTempDirSync();
  try {
    const cache = new AttachmentCache(directory);
    cache.writeAttachment({
      ...KEY,
      netns: "/run/netns/c1",
      config: new TextEncoder().encode("{}"),
      cniArgs: [],
      capabilityArgs: {},
    }, result);
    cache.replaceResult(KEY, edit(cache.readResult(KEY) ?? {}));
    return cache.readResult(KEY);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const ROUTES4 = [
  { dst: "20.0.0.0/24", gw: "10.1.1.1" },
  { dst: "0.0.0.0/0", gw: "10.1.1.1" },
  { dst: "30.0.0.0/24", gw: "10.1.1.1" },
];
const ROUTES6 = [
  { dst: "20::0:0:0/56", gw: "10::1:1:1" },
  { dst: "::0/0", gw: "10::1:1:1" },
  { dst: "30::0:0:0/64", gw: "10::1:1:1" },
];

function cachedResult(
  cniVersion: string,
  { v4 = ROUTES4, v6 = ROUTES6 }: {
    readonly v4?: JsonObject[];
    readonly v6?: JsonObject[];
  } = {},
): JsonObject {
  const [address4, address6] = ["10.1.1.103/24", "10::1:1:103/64"];
  const withRoutes = (object: JsonObject, routes: JsonObject[]): JsonObject =>
    routes.length === 0 ? object : { ...object, routes };
  return /^0\.[12]\./.test(cniVersion)
    ? {
      // What was cached before versions were named has none.
      ...cniVersion === "0.1.0" ? {} : { cniVersion },
      ip4: withRoutes({ ip: address4 }, v4),
      ip6: withRoutes({ ip: address6 }, v6),
    }
    : withRoutes({
      cniVersion,
      ips: [{ address: address4 }, { address: address6 }],
    }, [...v4, ...v6]);
}

/** Counts the routes of each family, and the default ones among them. */
function count(result: JsonObject | undefined): string {
  const { routes } = decodeResult(result);
  return ([4, 6] as const).map((family) => {
    const own = routes.filter(({ dst }) => dst.family === family);
    const defaults = own.filter(({ dst }) => dst.prefixLength === 0);
    return `${own.length}/${defaults.length}`;
  }).join(" ");
}

/** Rows for each version, whose name stands in theirs. */
function eachVersion(
  rows: Readonly<Record<string, (cniVersion: string) => void>>,
): Record<string, Row> {
  return Object.fromEntries(
    SPEC_VERSIONS.flatMap((version) =>
      Object.entries(rows).map(([name, row]) => [
        `${name}, ${version}`,
        (): void => row(version),
      ])
    ),
  );
}

const GATEWAY4 = Ip.parse("10.1.1.1"), GATEWAY6 = Ip.parse("10::1:1:1");

conformance(
  AREA,
  eachVersion({
    "22 the IPv4 default route of a cached result goes": (cniVersion) => {
      const edited = throughCache(
        cachedResult(cniVersion),
        (result) => dropDefaultRoutes(result, [4]),
      );
      assertEquals(count(edited), "2/0 3/1");
    },
    "22 the IPv6 default route of a cached result goes": (cniVersion) => {
      const edited = throughCache(
        cachedResult(cniVersion),
        (result) => dropDefaultRoutes(result, [6]),
      );
      assertEquals(count(edited), "3/1 2/0");
    },
    "22 the only route is removed, and added again": (cniVersion) => {
      const only = cachedResult(cniVersion, {
        v4: [{ dst: "0.0.0.0/0", gw: "10.1.1.1" }],
        v6: [],
      });
      const none = throughCache(
        only,
        (result) => dropDefaultRoutes(result, [4]),
      );
      assertEquals(none, cachedResult(cniVersion, { v4: [], v6: [] }));
      assertEquals(
        throughCache(
          none ?? {},
          (result) => addDefaultRoutes(result, [GATEWAY4]),
        ),
        only,
      );
    },
    "23 a default route joins no routes": (cniVersion) => {
      const v4 = throughCache(
        cachedResult(cniVersion, { v4: [] }),
        (result) => addDefaultRoutes(result, [GATEWAY4]),
      );
      assertEquals(count(v4), "1/1 3/1");
      const v6 = throughCache(
        cachedResult(cniVersion, { v6: [] }),
        (result) => addDefaultRoutes(result, [GATEWAY6]),
      );
      assertEquals(count(v6), "3/1 1/1");
    },
    "23 a default route joins other routes": (cniVersion) => {
      const isOther = ({ dst }: JsonObject): boolean =>
        !String(dst).endsWith("/0");
      const v4 = throughCache(
        cachedResult(cniVersion, { v4: ROUTES4.filter(isOther) }),
        (result) => addDefaultRoutes(result, [GATEWAY4]),
      );
      assertEquals(count(v4), "3/1 3/1");
      const v6 = throughCache(
        cachedResult(cniVersion, { v6: ROUTES6.filter(isOther) }),
        (result) => addDefaultRoutes(result, [GATEWAY6]),
      );
      assertEquals(count(v6), "3/1 3/1");
    },
    "24 all of several default routes go": (cniVersion) => {
      const several = { v4: [...ROUTES4, ...ROUTES4], v6: ROUTES6 };
      const edited = throughCache(
        cachedResult(cniVersion, several),
        (result) => dropDefaultRoutes(result, [4]),
      );
      assertEquals(count(edited), "4/0 3/1");
    },
  }),
);

conformance(AREA, {
  "25 results of 1.1.0 can be edited": () => {
    const edited = addDefaultRoutes({ cniVersion: "1.1.0" }, [GATEWAY6]);
    assertEquals(edited["routes"], [{ dst: "::/0", gw: "10::1:1:1" }]);
  },
  "25 results of 0.9.0 cannot": () => {
    const unknown = { cniVersion: "0.9.0" };
    const edits = [
      (): JsonObject => dropDefaultRoutes(unknown, [4]),
      (): JsonObject => addDefaultRoutes(unknown, [GATEWAY4]),
    ];
    for (const edit of edits) {
      const { message } = assertThrows(edit, CniError);
      assertEquals(message, "not supported version: 0.9.0");
    }
  },
});

// Default routes of whole networks: kernel, cache and status agree

const V4: PodNetwork[] = [
  { subnets: ["10.1.0.0/24"], defaults: [{ dst: "0.0.0.0/0" }] },
  { subnets: ["10.1.1.0/24"], defaults: [{ dst: "0.0.0.0/0" }] },
];
const V6: PodNetwork[] = [
  { subnets: ["2001:db8::/64"], defaults: [{ dst: "::/0" }] },
  { subnets: ["2001:db8:1::/64"], defaults: [{ dst: "::/0" }] },
];
const DUAL: PodNetwork[] = [0, 1].map((at) => ({
  subnets: [...V4[at]?.subnets ?? [], ...V6[at]?.subnets ?? []],
  defaults: [...V4[at]?.defaults ?? [], ...V6[at]?.defaults ?? []],
}));

interface Case {
  readonly requests: { readonly [Name in PodInterface]?: Gateways };
  readonly networks: readonly PodNetwork[];
  /** What `ip` shows, in place of the default routes that plugins have made. */
  readonly kernel: readonly string[];
  /** The cached results, eth0 first. */
  readonly cache: readonly string[];
  /** The `gateway` of eth0 and net1 in the status. */
  readonly gateways: readonly (readonly string[] | undefined)[];
  /** By which interface packets leave. */
  readonly leaves: { readonly v4?: PodInterface; readonly v6?: PodInterface };
}

const ON_ETH0 = "via 10.1.0.1 dev eth0", ON_NET1 = "via 10.1.1.1 dev net1";
const V6_ETH0 = "via 2001:db8::1 dev eth0 metric 1024";
const V6_NET1 = "via 2001:db8:1::1 dev net1 metric 1024";

const CASES: Readonly<Record<string, Case>> = {
  "IPv4, two networks with default routes, the second is asked": {
    requests: { net1: ["10.1.1.1"] },
    networks: V4,
    kernel: [ON_NET1],
    cache: ["10.1.1.1 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.1"]],
    leaves: { v4: "net1" },
  },
  "IPv4, two networks with default routes, the first is asked": {
    requests: { eth0: ["10.1.0.1"] },
    networks: V4,
    kernel: [ON_ETH0],
    cache: ["10.1.0.1 0.0.0.0/0"],
    gateways: [["10.1.0.1"], undefined],
    leaves: { v4: "eth0" },
  },
  "IPv6, two networks with default routes": {
    requests: { net1: ["2001:db8:1::1"] },
    networks: V6,
    kernel: [V6_NET1],
    cache: ["2001:db8:1::1 ::/0"],
    gateways: [undefined, ["2001:db8:1::1"]],
    leaves: { v6: "net1" },
  },
  "both families, both are asked": {
    requests: { net1: ["10.1.1.1", "2001:db8:1::1"] },
    networks: DUAL,
    kernel: [ON_NET1, V6_NET1],
    cache: ["10.1.1.1 0.0.0.0/0", "2001:db8:1::1 ::/0"],
    gateways: [undefined, ["10.1.1.1", "2001:db8:1::1"]],
    leaves: { v4: "net1", v6: "net1" },
  },
  "both families, only IPv4 is asked: IPv6 is as it was": {
    requests: { net1: ["10.1.1.1"] },
    networks: [DUAL[0] as PodNetwork, V4[1] as PodNetwork],
    kernel: [ON_NET1, V6_ETH0],
    cache: ["- ::/0", "10.1.1.1 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.1"]],
    leaves: { v4: "net1", v6: "eth0" },
  },
  "both families, each network is asked for one": {
    requests: { eth0: ["2001:db8::1"], net1: ["10.1.1.1"] },
    networks: DUAL,
    kernel: [ON_NET1, V6_ETH0],
    cache: ["2001:db8::1 ::/0", "10.1.1.1 0.0.0.0/0"],
    gateways: [["2001:db8::1"], ["10.1.1.1"]],
    leaves: { v4: "net1", v6: "eth0" },
  },
  "a network that has no default route is asked": {
    requests: { net1: ["10.1.1.1"] },
    networks: [V4[0] as PodNetwork, { subnets: ["10.1.1.0/24"] }],
    kernel: [ON_NET1],
    cache: ["10.1.1.1 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.1"]],
    leaves: { v4: "net1" },
  },
  "another gateway than the network's own": {
    requests: { net1: ["10.1.1.254"] },
    networks: V4,
    kernel: ["via 10.1.1.254 dev net1"],
    cache: ["10.1.1.254 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.254"]],
    leaves: { v4: "net1" },
  },
  "metrics: the better one of the network that is not asked goes": {
    requests: { net1: ["10.1.1.1"] },
    networks: [
      V4[0] as PodNetwork,
      {
        subnets: ["10.1.1.0/24"],
        defaults: [{ dst: "0.0.0.0/0", priority: 100 }],
      },
    ],
    kernel: [`${ON_NET1} metric 100`],
    cache: ["10.1.1.1 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.1"]],
    leaves: { v4: "net1" },
  },
  "several default routes of one network": {
    requests: { net1: ["10.1.1.1"] },
    networks: [
      {
        subnets: ["10.1.0.0/24"],
        defaults: [
          { dst: "0.0.0.0/0" },
          { dst: "0.0.0.0/0", gw: "10.1.0.9", priority: 50 },
        ],
      },
      {
        subnets: ["10.1.1.0/24"],
        defaults: [
          { dst: "0.0.0.0/0", gw: "10.1.1.8" },
          { dst: "0.0.0.0/0", gw: "10.1.1.9", priority: 50 },
        ],
      },
    ],
    kernel: [ON_NET1],
    cache: ["10.1.1.1 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.1"]],
    leaves: { v4: "net1" },
  },
  "an empty list changes nothing": {
    requests: { net1: [] },
    networks: [V4[0] as PodNetwork, { subnets: ["10.1.1.0/24"] }],
    kernel: [ON_ETH0],
    cache: ["- 0.0.0.0/0"],
    gateways: [undefined, undefined],
    leaves: { v4: "eth0" },
  },
  "a route of another table stays": {
    requests: { net1: ["10.1.1.1"] },
    networks: [
      {
        subnets: ["10.1.0.0/24"],
        defaults: [{ dst: "0.0.0.0/0" }, { dst: "0.0.0.0/0", table: 100 }],
      },
      V4[1] as PodNetwork,
    ],
    kernel: [ON_NET1, `${ON_ETH0} table 100`],
    cache: ["- 0.0.0.0/0", "10.1.1.1 0.0.0.0/0"],
    gateways: [undefined, ["10.1.1.1"]],
    leaves: { v4: "net1" },
  },
};

function checkCase(
  { requests, networks, kernel, cache, gateways, leaves }: Case,
  cniVersion: string,
): Row {
  return async () => {
    using pod = new PodNetworks(requests);
    const [eth0, net1] = networks as readonly [PodNetwork, PodNetwork];
    await pod.attach("eth0", { ...eth0, cniVersion });
    await pod.attach("net1", { ...net1, cniVersion });
    assertEquals(pod.defaults(), [...kernel]);
    assertEquals(pod.remembered(), [...cache]);
    assertEquals(pod.statuses.map(({ gateway }) => gateway), [...gateways]);
    assertEquals(pod.statuses.map((one) => one.default), [true, undefined]);
    assertEquals(pod.leavesBy("203.0.113.1"), leaves.v4);
    assertEquals(pod.leavesBy("2001:db8:ffff::1"), leaves.v6);
  };
}

conformance(
  AREA,
  Object.fromEntries(
    Object.entries(CASES).flatMap(([name, row]) =>
      // Only 1.1.0 has metrics and tables; the shapes before 0.3.0 are above.
      (/metric|several|table/.test(name) ? ["1.1.0"] : ["0.3.1", "1.1.0"])
        .map((version) => [
          `21-23 ${name}, ${version}`,
          checkCase(row, version),
        ])
    ),
  ),
  root,
);
