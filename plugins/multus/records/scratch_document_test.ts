import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import {
  type Delegate,
  isList,
  loadDelegate,
  ROUTES,
} from "../model/delegate.ts";
import { decodeScratch, encodeScratch } from "./scratch_document.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

/**
 * What Go's encoding/json writes for the fields and tags of multus-cni's
 * `DelegateNetConf`, with the types of containernetworking/cni 1.3.0, given
 * `scratch-cases.json`; `scratch-v3` is from a node with multus 3.8, and
 * `scratch-v4.3` what multus 4.3.0 keeps of a list that `clusterNetwork` names
 * by path.
 */
const GOLDEN = new URL("../../../tests/golden/multus/", import.meta.url);

function readGolden(name: string): Uint8Array {
  return Deno.readFileSync(new URL(name, GOLDEN));
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

interface GoldenDelegate {
  readonly config: string;
  readonly name?: string;
  readonly ifName?: string;
  readonly mac?: string;
  readonly infinibandGuid?: string;
  readonly ips?: string[];
  readonly defaultRoute?: string[];
  readonly isFilterV4Gateway?: boolean;
  readonly isFilterV6Gateway?: boolean;
  readonly deviceId?: string;
  readonly resourceName?: string;
}

function toDelegate(
  { config, name, defaultRoute, ...more }: GoldenDelegate,
): Delegate {
  const { deviceId, resourceName, ifName, mac, infinibandGuid, ips } = more;
  const request = {
    ...ifName && { ifName },
    ...mac && { mac },
    ...infinibandGuid && { infinibandGuid },
    ...ips && { ips },
    ...defaultRoute && { defaultRoute: defaultRoute.map(Ip.parse) },
    ...deviceId && !resourceName && { deviceId },
  };
  return {
    ...loadDelegate(encode(config), { ...name && { name }, request }),
    ...resourceName && deviceId && { resourceName, deviceId },
    isFilterV4Gateway: more.isFilterV4Gateway ?? false,
    isFilterV6Gateway: more.isFilterV6Gateway ?? false,
  };
}

const CASES = Object.entries(
  JSON.parse(decode(readGolden("scratch-cases.json"))) as Record<
    string,
    GoldenDelegate[]
  >,
).map(([name, delegates]) => ({ name, delegates: delegates.map(toDelegate) }));

Deno.test("encodeScratch() writes the same bytes as Go", async (t) => {
  await eachRow(t, CASES, ({ name, delegates }) => {
    assertEquals(decode(encodeScratch(delegates)), decode(readGolden(name)));
  }, ({ name }) => name);
});

Deno.test("decodeScratch() reads back what was written", async (t) => {
  await eachRow(t, CASES, ({ delegates }) => {
    const document = { owner: "", entries: delegates };
    assertEquals(decodeScratch(encodeScratch(delegates), "it"), document);
  }, ({ name }) => name);
});

Deno.test("encodeScratch() names the owner, in a key that Go ignores", async (t) => {
  await eachRow(t, CASES, ({ name, delegates }) => {
    const bytes = encodeScratch(delegates, "multus-cni-network");
    const document = { owner: "multus-cni-network", entries: delegates };
    assertEquals(decodeScratch(bytes, "it"), document);
    const [first, ...others] = JSON.parse(decode(bytes));
    const { multusNetwork, ...known } = first;
    assertEquals(multusNetwork, "multus-cni-network");
    assertEquals([known, ...others], JSON.parse(decode(readGolden(name))));
  }, ({ name }) => name);
});

Deno.test("encodeScratch() keeps requested routes, in a key that Go ignores", () => {
  const routes = [
    { dst: Cidr.parse("10.50.0.0/16"), gw: Ip.parse("10.1.1.1"), mtu: 1400 },
    { dst: Cidr.parse("fd50::/16"), scope: 253, table: 100 },
  ];
  const delegate = loadDelegate(Uint8Array.fromBase64(BYTES), {
    request: { routes },
  });
  const bytes = encodeScratch([delegate]);
  const [{ [ROUTES]: written }] = JSON.parse(decode(bytes));
  assertEquals(written, [
    { dst: "10.50.0.0/16", gw: "10.1.1.1", mtu: 1400 },
    { dst: "fd50::/16", table: 100, scope: 253 },
  ]);
  const [read] = decodeScratch(bytes, "it").entries;
  assertEquals(read, delegate);
});

Deno.test("decodeScratch() reads the owner of a file whose first network is damaged", async (t) => {
  const rows: [string, unknown, string][] = [
    ["it has no configuration", { multusNetwork: "a" }, "a"],
    ["the owner is not a string", { Bytes: BYTES, multusNetwork: 7 }, ""],
    ["null instead of a network", null, ""],
  ];
  await eachRow(t, rows, ([, first, owner]) => {
    const text = JSON.stringify([first, { Bytes: BYTES }]);
    assertEquals(decodeScratch(encode(text), "it").owner, owner);
  });
});

Deno.test("decodeScratch() reads what multus 3.8 wrote", () => {
  const { owner, entries } = decodeScratch(readGolden("scratch-v3"), "it");
  assertEquals(owner, "");
  const [first, second] = entries.map((entry) => {
    assert(!(entry instanceof CniError));
    assert(isList(entry.conf));
    return entry;
  });
  assertEquals(first?.name, "kube-ovn");
  assertEquals(
    first && decode(first.conf.bytes),
    `{"cniVersion":"0.3.1","name":"kube-ovn","plugins":[{"server_socket":` +
      `"/run/openvswitch/kube-ovn-daemon.sock","type":"kube-ovn"},` +
      `{"capabilities":{"portMappings":true},"type":"portmap"}]}`,
  );
  assertEquals(second?.name, "default/ipvlan-net2");
  assertEquals(
    second && decode(second.conf.bytes),
    `{ "cniVersion": "0.3.1", "name": "ipvlan-network", "plugins": [ ` +
      `{ "type": "ipvlan", "master": "bond0", "ipam": { "type": ` +
      `"host-local", "subnet": "192.168.133.0/24", "rangeStart": ` +
      `"192.168.133.190", "rangeEnd": "192.168.133.250" } }, ` +
      `{ "type": "sbr" } ] }`,
  );
});

Deno.test("decodeScratch() reads the list that multus 4.3 shortened in Bytes", () => {
  const golden = readGolden("scratch-v4.3");
  const [whole] = decodeScratch(golden, "it").entries;
  assert(whole !== undefined && !(whole instanceof CniError));
  assertEquals(JSON.parse(decode(whole.conf.bytes)), {
    cniVersion: "1.0.0",
    name: "pods",
    region: "x",
    plugins: [
      {
        type: "ptp",
        ipMasq: true,
        mtu: 1400,
        ipam: {
          type: "host-local",
          subnet: "10.1.4.0/24",
          dataDir: "/var/lib/other",
        },
      },
      { type: "portmap", capabilities: { portMappings: true }, snat: true },
    ],
  });
  const [entry] = JSON.parse(decode(golden));
  for (
    const list of [
      null,
      7,
      {},
      { ...entry.CNINetworkConfigList, Plugins: null },
      { ...entry.CNINetworkConfigList, Plugins: [] },
      { ...entry.CNINetworkConfigList, Plugins: [{ Bytes: "*" }] },
    ]
  ) {
    const text = JSON.stringify([{ ...entry, CNINetworkConfigList: list }]);
    const [short] = decodeScratch(encode(text), "it").entries;
    assert(short !== undefined && !(short instanceof CniError));
    assertEquals(short.conf.bytes, Uint8Array.fromBase64(entry.Bytes));
  }
});

/** A network with the required keys only. */
const BYTES = encode(`{"name":"n","type":"t"}`).toBase64();

/** Decodes a file of one network with additional keys. */
function decodeOne(
  more: Record<string, unknown>,
): Delegate | CniError | undefined {
  const text = JSON.stringify([{ Bytes: BYTES, ...more }]);
  return decodeScratch(encode(text), "it").entries[0];
}

Deno.test("decodeScratch() reads files of other versions", async (t) => {
  const bare = loadDelegate(encode(`{"name":"n","type":"t"}`));
  const rows: [string, Record<string, unknown>, Delegate][] = [
    ["the network alone", {}, bare],
    ["keys that are unknown", { New: { a: [1] } }, bare],
    ["keys in another case", { name: "x", IFNAMEREQUEST: "a0" }, {
      ...bare,
      name: "x",
      request: { ifName: "a0" },
    }],
    ["null where nothing is", {
      Name: null,
      ipRequest: null,
      "default-route": null,
      IsFilterV4Gateway: null,
    }, bare],
    ["empty texts", { Name: "", ifnameRequest: "", deviceID: "" }, bare],
    ["one flag for both families", { IsFilterGateway: true }, {
      ...bare,
      isFilterV4Gateway: true,
      isFilterV6Gateway: true,
    }],
    ["an empty gateway, as of a nil net.IP", {
      "default-route": ["", "10.0.0.1"],
    }, { ...bare, request: { defaultRoute: [Ip.parse("10.0.0.1")] } }],
    ["a wrong Conf", { Conf: 7, ConfList: [] }, bare],
  ];
  await eachRow(
    t,
    rows,
    ([, more, expected]) => assertEquals(decodeOne(more), expected),
  );
});

Deno.test("decodeScratch() reports why a network cannot be used", async (t) => {
  const rows: [string, unknown, string][] = [
    ["null", null, "expected an object, got null"],
    ["a text", "x", "expected an object, got a string"],
    ["no Bytes", {}, "Bytes: missing"],
    ["Bytes not in base64", { Bytes: "*" }, "not base64"],
    ["Bytes without JSON", { Bytes: "e30" + "e" }, "Cannot parse"],
    [
      "Bytes without a network",
      { Bytes: "e30=" },
      "error parsing configuration",
    ],
    ["a name of another type", { Bytes: BYTES, Name: 1 }, "Name: expected"],
  ];
  await eachRow(t, rows, ([, value, problem]) => {
    const text = JSON.stringify([value, { Bytes: BYTES }]);
    const [bad, good] = decodeScratch(encode(text), "it").entries;
    assert(bad instanceof CniError);
    assertEquals(bad.code, 6);
    assert(bad.toString().includes(problem), bad.toString());
    assert(!(good instanceof CniError));
  });
});

testRows("decodeScratch() refuses anything but a list of networks", [
  "",
  " ",
  "\0\0",
  "[",
  "[]",
  "{}",
  "null",
  '"x"',
  "[}",
], (text) => {
  const error = assertThrows(
    () => decodeScratch(encode(text), "it"),
    CniError,
  );
  assertEquals(error.code, 6);
}, (text) => JSON.stringify(text));
