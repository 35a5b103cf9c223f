import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { Ip } from "../../../net/ip.ts";
import type { AttachmentRequest } from "../model/delegate.ts";
import { isHardwareAddress, parseJsonNetworks } from "./annotation_schema.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

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
    [{ "ipam-claim-reference": "x" }, {}],
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

const GUID = "02:00:5e:10:00:00:00:01";
const LONG = "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01";

testRows("isHardwareAddress() accepts three forms and three lengths", [
  ["02:00:5e:10:00:01", true],
  ["02-00-5E-10-00-01", true],
  ["0200.5e10.0001", true],
  [GUID, true],
  [GUID.replaceAll(":", "-"), true],
  ["0200.5e10.0000.0001", true],
  [LONG, true],
  ["0000.0000.fe80.0000.0000.0000.0200.5e10.0000.0001", true],
  ["", false],
  ["02005e100001", false],
  ["02:00:5e:10:00", false],
  ["02:00:5e:10:00:01:", false],
  ["02:00:5e:10:00:01:02", false],
  ["02:00-5e:10:00:01", false],
  ["0200.5e10", false],
  ["0200:5e10:0001", false],
  ["02.00.5e.10.00.01", false],
  ["2:0:5e:10:0:1", false],
  ["02:00:5e:10:00:0g", false],
  [" 02:00:5e:10:00:01", false],
], ([text, expected]: [string, boolean]) => {
  assertEquals(isHardwareAddress(text), expected);
}, ([text]) => text || '""');
