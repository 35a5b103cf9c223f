import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { Ip } from "../../../net/ip.ts";
import { requireRoot } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { networksQuery } from "../testing/definitions.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import type { AttachmentRequest, NetworkSelection } from "../model/delegate.ts";
import {
  type ChosenNetworks,
  parseDefaultNetwork,
  parseJsonNetworks,
  parseNetworks,
  readAnnotations,
} from "./annotations.ts";

/** `namespace/name@interface` of each. */
function names(selections: readonly NetworkSelection[]): string[] {
  return selections.map(({ namespace, name, request: { ifName } }) =>
    `${namespace}/${name}${ifName === undefined ? "" : `@${ifName}`}`
  );
}

testRows<[string, string[]]>("parseNetworks() reads the short form", [
  ["", []],
  ["net1", ["pod/net1"]],
  ["net1,net2", ["pod/net1", "pod/net2"]],
  [" net1 ,\n\tother/net2 ", ["pod/net1", "other/net2"]],
  ["other / net1 @ ext0", ["other/net1@ext0"]],
  ["net1,net1", ["pod/net1", "pod/net1"]],
  ["/net1", ["pod/net1"]],
  ["net1@", ["pod/net1"]],
  ["net1@Ext_0.5", ["pod/net1@Ext_0.5"]],
  ["net1@123456789012345", ["pod/net1@123456789012345"]],
  ["a-1/0-b", ["a-1/0-b"]],
  ["null", ["pod/null"]],
], ([text, expected]) => {
  assertEquals(names(parseNetworks(text, "pod")), expected);
}, ([text]) => JSON.stringify(text));

const MISMATCH = "one or more items did not match comma-delimited format";
const BAD_INTERFACE = "Failed to parse interface name: must be less than 15";

testRows<[string, string]>("parseNetworks() refuses a malformed short form", [
  ["a/b/c", "Invalid network object (failed at '/')"],
  ["a@b@c", "Invalid network object (failed at '@')"],
  ["net1@a/b", MISMATCH],
  ["Net1", `${MISMATCH} (must consist`],
  ["net.1", "mismatch @ 'net.1'"],
  ["-net1", "mismatch @ '-net1'"],
  ["net1-", "mismatch @ 'net1-'"],
  ["NS/net1", "mismatch @ 'NS'"],
  ["net 1", "mismatch @ 'net 1'"],
  ["../net1", "mismatch @ '..'"],
  ["net1@my ifc", `${BAD_INTERFACE} chars`],
  ["net1@1234567890123456", "interface name '1234567890123456'"],
  ["net1@ääääääää", BAD_INTERFACE],
], ([text, message]) => {
  const parse = (): unknown => parseNetworks(`ok,${text}`, "pod");
  assertEquals(assertThrows(parse, CniError, message).code, 7);
});

testRows<[string, number]>("parseNetworks() reports which item has no name", [
  [" ", 1],
  [",", 1],
  ["net1,", 2],
  ["net1,,net2", 2],
  ["other/", 1],
  ["@ext0", 1],
  ['[{"name":"a"},{}]', 2],
  ['[{"name":""}]', 1],
  ['[{"namespace":"other"}]', 1],
], ([text, item]) => {
  assertThrows(
    () => parseNetworks(text, "pod"),
    CniError,
    `parsePodNetworkAnnotation: item ${item} names no network`,
  );
}, ([text]) => JSON.stringify(text));

testRows("parseNetworks() refuses names that no object can have", [
  [
    '[{"name":"default/my-nad"}]',
    'the name "default/my-nad"; the namespace has its own key, "namespace"',
  ],
  ['[{"name":"My_net"}]', 'the name "My_net"'],
  ['[{"name":"a","namespace":"b/c"}]', 'the namespace "b/c"'],
], ([text, what]) => {
  assertThrows(
    () => parseNetworks(text, "pod"),
    CniError,
    `parsePodNetworkAnnotation: item 1: no object can have ${what}`,
  );
}, ([text]) => text);

Deno.test("parseNetworks() refuses interface names that no link can have", async (t) => {
  const KERNEL =
    "interface name has a character that the kernel does not allow";
  const FORBIDDEN = "interface name contains / or : or whitespace characters";
  const rows: [string, string][] = [
    ["a\0b", KERNEL],
    ["a\ud800", KERNEL],
    ["eth%d", KERNEL],
    ["à0", KERNEL],
    ["a:0", FORBIDDEN],
    ["a/b", FORBIDDEN],
    ["..", "interface name is . or .."],
    ["1234567890123456", "interface name is too long"],
  ];
  await eachRow(t, rows, ([ifName, reason]) => {
    const item = { name: "net1", interface: ifName };
    const text = JSON.stringify([{ name: "net0" }, item]);
    const error = assertThrows(() => parseNetworks(text, "pod"), CniError);
    assertEquals(
      error.message,
      `parsePodNetworkAnnotation: item 2: interface ${
        JSON.stringify(ifName)
      }: ${reason}`,
    );
    assertEquals(error.code, 7);
  }, ([ifName]) => JSON.stringify(ifName));
});

Deno.test({
  ...requireRoot(
    "parseNetworks() accepts interface names that the kernel accepts",
  ),
  fn(): void {
    using hosts = TestHosts.create();
    const characters = "az09_-.@~é\x01";
    const add = "link add peer0 type veth peer name".split(" ");
    for (const character of characters) {
      const ifName = `x${character}0`;
      const text = JSON.stringify([{ name: "net1", interface: ifName }]);
      assertEquals(names(parseNetworks(text, "pod")), [`pod/net1@${ifName}`]);
      runIn(hosts.sandbox, "ip", ...add, ifName);
      runIn(hosts.sandbox, "ip", "link", "del", "peer0");
    }
  },
});

Deno.test("parseNetworks() refuses more networks than a pod can have", async (t) => {
  const shortForm = (count: number): string =>
    Array.from({ length: count }, () => "net1").join();
  const longForm = (count: number): string =>
    JSON.stringify(Array.from({ length: count }, () => ({ name: "net1" })));
  await eachRow(t, [shortForm, longForm], (write) => {
    assertEquals(parseNetworks(write(128), "pod").length, 128);
    const parse = (): unknown => parseNetworks(write(129), "pod");
    const message = "parsePodNetworkAnnotation: the annotation names 129 " +
      "networks; a pod can have 128";
    assertEquals(assertThrows(parse, CniError, message).code, 7);
  }, (write) => write.name);
});

Deno.test("parseNetworks() refuses more addresses and ports than a pod can have", async (t) => {
  const ips = (count: number): string[] =>
    Array.from({ length: count }, (_, index) => `10.1.0.${index}/24`);
  const ports = (count: number): object[] =>
    Array(count).fill({ hostPort: 80, containerPort: 80 });
  const networks = (count: number, keys: object): object[] =>
    Array(count).fill({ name: "net1", ...keys });
  const one = 'network "net1" requests 17 addresses; a network can have 16';
  const all = "the annotation requests 129 addresses; a pod can have 128";
  const mapped =
    "the annotation requests 129 port mappings; a pod can have 128";
  const args = (count: number, key = "ips"): object => ({
    "cni-args": { [key]: ips(count) },
  });
  await eachRow<[string, object[], object[], string]>(
    t,
    [
      [
        "ips of a network",
        networks(1, { ips: ips(16) }),
        networks(1, { ips: ips(17) }),
        one,
      ],
      ["cni-args", networks(1, args(16)), networks(1, args(17)), one],
      [
        "in another case",
        networks(1, args(16, "IPs")),
        networks(1, args(17, "IPs")),
        one,
      ],
      [
        "together",
        networks(1, { ips: ips(8), ...args(8) }),
        networks(1, { ips: ips(9), ...args(8) }),
        one,
      ],
      [
        "all networks",
        networks(8, { ips: ips(16) }),
        [...networks(8, { ips: ips(16) }), ...networks(1, args(1))],
        all,
      ],
      [
        "port mappings",
        networks(2, { portMappings: ports(64) }),
        networks(3, { portMappings: ports(43) }),
        mapped,
      ],
    ],
    ([, allowed, refused, message]) => {
      const { length } = allowed;
      const parse = (list: object[]): unknown[] =>
        parseNetworks(JSON.stringify(list), "pod");
      assertEquals(parse(allowed).length, length);
      const text = `parsePodNetworkAnnotation: ${message}`;
      const error = assertThrows(() => parse(refused), CniError, text);
      assertEquals(error.code, 7);
    },
    ([title]) => title,
  );
});

testRows<[string, string]>("parseDefaultNetwork() reads one network", [
  ["net1", "kube-system/net1"],
  ["other/net1@eth5", "other/net1@eth5"],
  ['[{"name":"net1"}]', "kube-system/net1"],
], ([text, expected]) => {
  const selection = parseDefaultNetwork(text, "kube-system");
  assertEquals(names([selection]), [expected]);
});

Deno.test("parseDefaultNetwork() refuses no, several and malformed networks", async (t) => {
  const FAILED = "tryLoadK8sPodDefaultNetwork: ";
  const PARSE = `${FAILED}failed to parse CRD object: `;
  const rows: [string, string][] = [
    [
      "",
      `${PARSE}parsePodNetworkAnnotation: pod annotation does not have "network" as key`,
    ],
    ["[]", `${FAILED}no default network is specified: []`],
    ["a,b", `${FAILED}more than one default network is specified: a,b`],
    ["a/b/c", `${PARSE}parsePodNetworkAnnotation: parsePodNetworkObjectName: `],
    [" ", `${PARSE}parsePodNetworkAnnotation: item 1 names no network`],
  ];
  await eachRow(t, rows, ([text, message]) => {
    const parse = (): unknown => parseDefaultNetwork(text, "kube-system");
    assertEquals(assertThrows(parse, CniError, message).code, 7);
  }, ([text]) => JSON.stringify(text));
});

function read(
  annotations: { networks?: string; defaultNetwork?: string },
  written: object = {},
): ChosenNetworks {
  const { config, podNamespace } = networksQuery(written);
  const { networks, defaultNetwork } = annotations;
  return readAnnotations({ networks, defaultNetwork, podNamespace, config });
}

Deno.test("readAnnotations() uses each annotation's default namespace", () => {
  const { master, others } = read(
    { networks: "a,other/b", defaultNetwork: "c" },
    { multusNamespace: "infra" },
  );
  assertEquals(master?.namespace, "infra");
  assertEquals(others.map(({ namespace }) => namespace), ["test", "other"]);
});

Deno.test("readAnnotations() selects nothing without annotations", () => {
  assertEquals(read({}), { others: [] });
  assertEquals(read({ networks: "" }), { others: [] });
});

Deno.test("readAnnotations() restricts isolated pods to their namespace", async (t) => {
  const isolated = { namespaceIsolation: true };
  const rows: [string, string, object, boolean][] = [
    ["networks", "a,test/b", isolated, true],
    ["networks", "default/a", isolated, true],
    ["networks", "other/a", isolated, false],
    ["networks", "kube-system/a", isolated, false],
    ["networks", "other/a", {}, true],
    ["networks", '[{"name":"a","namespace":"other"}]', isolated, false],
    [
      "networks",
      "other/a",
      { ...isolated, globalNamespaces: "x, other" },
      true,
    ],
    ["networks", "default/a", { ...isolated, globalNamespaces: "x" }, false],
    ["defaultNetwork", "a", isolated, true],
    ["defaultNetwork", "kube-system/a", isolated, true],
    ["defaultNetwork", "test/a", isolated, true],
    ["defaultNetwork", "default/a", isolated, true],
    ["defaultNetwork", "other/a", isolated, false],
    ["defaultNetwork", "other/a", {}, true],
  ];
  for (const [annotation, text, config, isPermitted] of rows) {
    await t.step(`${annotation} ${text} ${JSON.stringify(config)}`, () => {
      const run = (): unknown => read({ [annotation]: text }, config);
      if (isPermitted) return void run();
      const message = "namespace isolation enabled, annotation violates";
      assertEquals(assertThrows(run, CniError, message).code, 7);
    });
  }
});

function requestOf(fields: object): AttachmentRequest | undefined {
  const text = JSON.stringify([{ name: "net1", ...fields }]);
  return parseJsonNetworks(text, "pod")[0]?.request;
}

Deno.test("parseJsonNetworks() sets the default namespace", () => {
  const text = '[{"name":"a.B"},{"name":"b","namespace":""},' +
    '{"NAME":"c","namespace":"other","ipRequest":"1.2.3.4"}]';
  assertEquals(
    parseJsonNetworks(text, "pod").map(({ namespace, name }) => [
      namespace,
      name,
    ]),
    [["pod", "a.B"], ["pod", "b"], ["other", "c"]],
  );
  assertEquals(parseJsonNetworks("[]", "pod"), []);
});

Deno.test("parseJsonNetworks() reads the requests for the attachment", async (t) => {
  const bandwidth = { ingressRate: 1, ingressBurst: 2, egressRate: 3, x: 4 };
  const portMappings = [{ hostPort: 8080, containerPort: 80, hostIP: "::1" }];
  const cniArgs = { a: { b: [1, null] } };
  const rows: [object, AttachmentRequest][] = [
    [{}, {}],
    [{ interface: "ext0" }, { ifName: "ext0" }],
    [{ interfaceRequest: "ext0" }, { ifName: "ext0" }],
    [{ interface: "a", interfaceRequest: "b" }, { ifName: "a" }],
    [{ interface: "", interfaceRequest: "b" }, { ifName: "b" }],
    [{ mac: "0200.5E10.0001" }, { mac: "0200.5E10.0001" }],
    [{ "infiniband-guid": "02:00:5e:10:00:00:00:01" }, {
      infinibandGuid: "02:00:5e:10:00:00:00:01",
    }],
    [{ ips: ["10.1.1.11/24", "10.1.1.12", "2001:db8::1/64", "::2"] }, {
      ips: ["10.1.1.11/24", "10.1.1.12", "2001:db8::1/64", "::2"],
    }],
    [{ ips: [] }, { ips: [] }],
    [{ bandwidth }, { bandwidth }],
    [{ portMappings }, { portMappings }],
    [{ portMappings: [] }, { portMappings: [] }],
    [{ "cni-args": cniArgs }, { cniArgs }],
    [{ "cni-args": {} }, { cniArgs: {} }],
    [{ "default-route": [] }, { defaultRoute: [] }],
    [{ "default-route": ["10.1.1.1", "fd00::1", "::ffff:1.2.3.4"] }, {
      defaultRoute: ["10.1.1.1", "fd00::1", "1.2.3.4"].map(Ip.parse),
    }],
    [{ deviceID: "0000:00:01.0" }, { deviceId: "0000:00:01.0" }],
    [{ mac: "", "infiniband-guid": "", deviceID: "", interface: "" }, {}],
    [{ ips: null, mac: null, bandwidth: null, "default-route": null }, {}],
    [{ "ipam-claim-reference": "x" }, { claim: "x" }],
    [{ "ipam-claim-reference": "" }, {}],
  ];
  await eachRow(t, rows, ([fields, expected]) => {
    assertEquals(requestOf(fields), expected);
  }, ([fields]) => JSON.stringify(fields));
});

const JSON_FORMAT =
  "parsePodNetworkAnnotation: failed to parse pod Network Attachment Selection Annotation JSON format: ";

testRows("parseJsonNetworks() refuses anything but a list of networks", [
  ["[adsfasdfasdfasf]", "Cannot parse JSON: "],
  ['[{"name":"a"}', "Cannot parse JSON: "],
  ['{"name":"a"}', "expected an array, got an object"],
  ['"net1"', "expected an array, got a string"],
  ["[null]", "[0]: expected an object, got null"],
  ['["net1"]', "[0]: expected an object, got a string"],
  ['[{"name":5}]', "[0].name: expected a string"],
  ['[{"name":"a","ips":"10.1.1.1"}]', "[0].ips: expected an array"],
  ['[{"name":"a","ips":[1]}]', "[0].ips[0]: expected a string"],
  ['[{"name":"a","bandwidth":{"egressRate":"1M"}}]', ".egressRate: expected"],
  ['[{"name":"a","portMappings":[null]}]', ".portMappings[0]: expected"],
  ['[{"name":"a","cni-args":[1]}]', "[0].cni-args: expected an object"],
  ['[{"name":"a","default-route":"10.1.1.1"}]', "expected an array"],
  ['[{"name":"a","default-route":[""]}]', "invalid IP address: "],
  ['[{"name":"a","default-route":[null]}]', "default-route[0]: expected"],
  ['[{"name":"a","default-route":["10.1.1.1/24"]}]', "invalid IP address"],
], ([text, message]: [string, string]) => {
  const parse = (): unknown => parseJsonNetworks(text, "pod");
  const error = assertThrows(parse, CniError, message);
  assertEquals([error.code, error.message.startsWith(JSON_FORMAT)], [7, true]);
});

testRows<[object, string]>("parseJsonNetworks() refuses malformed addresses", [
  [
    { mac: "02:00" },
    "parsePodNetworkAnnotation: failed to mac: address 02:00: invalid MAC address",
  ],
  [
    { "infiniband-guid": "x" },
    "parsePodNetworkAnnotation: failed to validate infiniband GUID: address x: invalid MAC address",
  ],
  [
    { ips: ["10.1.1.1/33"] },
    'failed to parse CIDR "10.1.1.1/33": invalid CIDR address: 10.1.1.1/33',
  ],
  [{ ips: ["10.1.1.1", "10.1.1"] }, 'failed to parse IP address "10.1.1"'],
  [{ ips: [""] }, 'failed to parse IP address ""'],
], ([fields, message]) => {
  const error = assertThrows(() => requestOf(fields), CniError);
  assertEquals([error.code, error.message], [7, message]);
}, ([fields]) => JSON.stringify(fields));
