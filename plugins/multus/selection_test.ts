import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../cni/error.ts";
import type { NetworkSelection } from "./delegate.ts";
import { parseDefaultNetwork, parseNetworks } from "./selection.ts";

/** `namespace/name@interface` of each. */
function names(selections: readonly NetworkSelection[]): string[] {
  return selections.map(({ namespace, name, request: { ifName } }) =>
    `${namespace}/${name}${ifName === undefined ? "" : `@${ifName}`}`
  );
}

Deno.test("parseNetworks() reads the short form", async (t) => {
  const rows: [string, string[]][] = [
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
  ];
  for (const [text, expected] of rows) {
    await t.step(JSON.stringify(text), () => {
      assertEquals(names(parseNetworks(text, "pod")), expected);
    });
  }
});

const MISMATCH = "one or more items did not match comma-delimited format";
const BAD_INTERFACE = "Failed to parse interface name: must be less than 15";

Deno.test("parseNetworks() refuses what has not the short form", async (t) => {
  const rows: [string, string][] = [
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
  ];
  for (const [text, message] of rows) {
    await t.step(text, () => {
      const parse = (): unknown => parseNetworks(`ok,${text}`, "pod");
      assertEquals(assertThrows(parse, CniError, message).code, 7);
    });
  }
});

Deno.test("parseNetworks() tells which item names no network", async (t) => {
  const rows: [string, number][] = [
    [" ", 1],
    [",", 1],
    ["net1,", 2],
    ["net1,,net2", 2],
    ["other/", 1],
    ["@ext0", 1],
    ['[{"name":"a"},{}]', 2],
    ['[{"name":""}]', 1],
    ['[{"namespace":"other"}]', 1],
  ];
  for (const [text, item] of rows) {
    await t.step(JSON.stringify(text), () => {
      assertThrows(
        () => parseNetworks(text, "pod"),
        CniError,
        `parsePodNetworkAnnotation: item ${item} names no network`,
      );
    });
  }
});

Deno.test("parseDefaultNetwork() reads one network", async (t) => {
  const rows: [string, string][] = [
    ["net1", "kube-system/net1"],
    ["other/net1@eth5", "other/net1@eth5"],
    ['[{"name":"net1"}]', "kube-system/net1"],
  ];
  for (const [text, expected] of rows) {
    await t.step(text, () => {
      const selection = parseDefaultNetwork(text, "kube-system");
      assertEquals(names([selection]), [expected]);
    });
  }
});

Deno.test("parseDefaultNetwork() refuses none, several and malformed ones", async (t) => {
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
  for (const [text, message] of rows) {
    await t.step(JSON.stringify(text), () => {
      const parse = (): unknown => parseDefaultNetwork(text, "kube-system");
      assertEquals(assertThrows(parse, CniError, message).code, 7);
    });
  }
});
