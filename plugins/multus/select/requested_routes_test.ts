import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { Cidr } from "../../../net/cidr.ts";
import { testRows } from "../../../tests/_harness/table.ts";
import { type Delegate, ROUTES } from "../model/delegate.ts";
import { NetworkError } from "../model/network_error.ts";
import { parseNetworks } from "./annotations.ts";
import { checkPermittedRoutes } from "./requested_routes.ts";

function parse(...routes: readonly JsonObject[]): void {
  parseNetworks(JSON.stringify([{ name: "storage", [ROUTES]: routes }]), "a");
}

Deno.test("parseNetworks() reads the routes over a network", () => {
  const [network] = parseNetworks(
    JSON.stringify([{
      name: "storage",
      [ROUTES.toUpperCase()]: [
        { dst: "10.50.1.2/16", gw: "10.1.1.1", mtu: 1400, priority: 7 },
        { dst: "fd50::/16", gw: "", table: 100, scope: null },
        { dst: "224.0.0.0/4", scope: 253 },
      ],
    }]),
    "default",
  );
  const routes = network?.request.routes?.map(({ dst, gw, ...others }) => ({
    dst: `${dst}`,
    gw: gw && `${gw}`,
    ...others,
  }));
  assertEquals(routes, [
    { dst: "10.50.1.2/16", gw: "10.1.1.1", mtu: 1400, priority: 7 },
    { dst: "fd50::/16", gw: undefined, table: 100 },
    { dst: "224.0.0.0/4", gw: undefined, scope: 253 },
  ]);
});

const AT = `network "storage": ${ROUTES}`;

testRows<[string, JsonObject[], string]>(
  "parseNetworks() refuses routes that cannot be meant",
  [
    ["no destination", [{ gw: "10.1.1.1" }], "dst"],
    ["not a prefix", [{ dst: "10.1.1.1" }], "dst"],
    [
      "an unknown key",
      [{ dst: "10.50.0.0/16", via: "10.1.1.1" }],
      `${AT}[0]: unknown key "via"`,
    ],
    [
      "a gateway of the other family",
      [{ dst: "10.0.0.0/8", gw: "10.1.1.1" }, {
        dst: "fd::/8",
        gw: "10.1.1.1",
      }],
      `${AT}[1]: gw 10.1.1.1: expected an IPv6 address`,
    ],
    [
      "no host's address",
      [{ dst: "10.50.0.0/16", gw: "0.0.0.0" }],
      `${AT}[0]: gw 0.0.0.0: it is not a host address`,
    ],
    [
      "a multicast address",
      [{ dst: "fd50::/16", gw: "ff02::2" }],
      `${AT}[0]: gw ff02::2: it is not a host address`,
    ],
    [
      "a gateway on the link, and none",
      [{ dst: "10.50.0.0/16", gw: "10.1.1.1", scope: 253 }],
      `${AT}[0]: gw 10.1.1.1: a route of scope 253 must not have a gateway`,
    ],
    [
      "the scope of a host",
      [{ dst: "10.50.0.0/16", scope: 254 }],
      `${AT}[0]: scope 254: expected 0 (global) or 253 (link)`,
    ],
    [
      "the kernel's table",
      [{ dst: "10.50.0.0/16", gw: "10.1.1.1", table: 255 }],
      `${AT}[0]: table 255 is the kernel's own`,
    ],
    [
      "a number that the kernel has no room for",
      [{ dst: "10.50.0.0/16", priority: 2 ** 32 }],
      `${AT}[0]: priority 4294967296: expected 0 to 4294967295`,
    ],
    ["a negative number", [{ dst: "10.50.0.0/16", table: -1 }], "table -1"],
    [
      "a default route",
      [{ dst: "0.0.0.0/0", gw: "10.1.1.1" }],
      `${AT}[0]: a default route needs "default-route", or a different table`,
    ],
    [
      "a default route of table main by its number",
      [{ dst: "::/0", gw: "fd::1", table: 254 }],
      `${AT}[0]: a default route needs "default-route", or a different table`,
    ],
    [
      "the same destination twice",
      [
        { dst: "10.50.0.0/16", gw: "10.1.1.1" },
        { dst: "10.50.0.0/16", gw: "10.1.1.2", priority: 1 },
        { dst: "10.50.9.9/16", gw: "10.1.1.2", table: 254 },
      ],
      `${AT}[2]: there is another route to 10.50.0.0/16`,
    ],
    [
      "more routes than a node allows",
      Array.from({ length: 257 }, (_, index) => ({
        dst: `10.50.${index >> 8}.${index & 255}/32`,
      })),
      "the annotation has 257 routes; a pod can have 256",
    ],
  ],
  ([, routes, message]) => {
    const error = assertThrows(() => parse(...routes), CniError, message);
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
    assertEquals(error.message.startsWith("parsePodNetworkAnnotation: "), true);
  },
  ([name]) => name,
);

function permit(podRoutes: readonly string[], dst: string): void {
  const [network] = parseNetworks(
    JSON.stringify([{ name: "storage", [ROUTES]: [{ dst, table: 100 }] }]),
    "default",
  );
  const delegate = { name: "default/storage", request: network?.request };
  checkPermittedRoutes([delegate as Delegate], {
    podRoutes: podRoutes.map((text) => Cidr.parse(text)),
  });
}

testRows<[readonly string[], string]>(
  "checkPermittedRoutes() allows the subnets of the node's configuration",
  [
    [["10.50.0.0/16"], "10.50.0.0/16"],
    [["fd50::/16", "10.50.7.7/16"], "10.50.3.0/24"],
    [["0.0.0.0/0"], "0.0.0.0/0"],
    [["::/0"], "fd50::1/128"],
  ],
  ([podRoutes, dst]) => permit(podRoutes, dst),
  ([podRoutes, dst]) => `${dst} by ${podRoutes}`,
);

testRows<[readonly string[], string]>(
  "checkPermittedRoutes() refuses routes outside the permitted subnets",
  [
    [[], "10.50.0.0/16"],
    [["10.50.0.0/16"], "10.0.0.0/8"],
    [["10.50.0.0/16"], "10.51.0.0/24"],
    [["10.50.0.0/17", "10.50.128.0/17"], "10.50.0.0/16"],
    [["0.0.0.0/0"], "fd50::/16"],
  ],
  ([podRoutes, dst]) => {
    const error = assertThrows(() => permit(podRoutes, dst), NetworkError);
    const message = `Refused route ${dst} of "dev.cni.routes" over network ` +
      `"default/storage": "podRoutes" of the node's multus configuration ` +
      "does not contain the destination";
    assertEquals([error.code, error.message], [7, message]);
    assertEquals(error.event, { reason: "NetworkRefused", message });
  },
  ([podRoutes, dst]) => `${dst} by ${podRoutes}`,
);
