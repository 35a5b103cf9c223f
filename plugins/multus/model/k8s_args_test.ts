import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import type { AttachmentRequest } from "./delegate.ts";
import {
  delegateArgs,
  type K8sArgs,
  parseK8sArgs,
  parseK8sArgsLeniently,
} from "./k8s_args.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const NOTHING: K8sArgs = {
  podNamespace: "",
  podName: "",
  infraContainerId: "",
  podUid: "",
};
const POD: K8sArgs = {
  podNamespace: "test",
  podName: "web-0",
  infraContainerId: "c1",
  podUid: "u-1",
};
/** As containerd passes them. */
const POD_TEXT = "K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0;" +
  "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1;IgnoreUnknown=1";

testRows<[string, string, Partial<K8sArgs>]>("parseK8sArgs() reads the pod", [
  ["nothing", "", {}],
  ["all keys", POD_TEXT, POD],
  ["keys without IgnoreUnknown", "K8S_POD_NAME=web-0", { podName: "web-0" }],
  ["the last of two", "K8S_POD_UID=a;K8S_POD_UID=b", { podUid: "b" }],
  ["an empty value", "K8S_POD_UID=", {}],
  ["IP, whatever it is", "IP=10.0.0.1/24,fd00::1;K8S_POD_NAME=p", {
    podName: "p",
  }],
  ["other keys that may be ignored", "IgnoreUnknown=true;A=b;IP=x", {}],
  ["other keys before it is said", "A=b;IgnoreUnknown=1", {}],
], ([, text, expected]) => {
  assertEquals(parseK8sArgs(text), { ...NOTHING, ...expected });
  assertEquals(parseK8sArgsLeniently(text), { ...NOTHING, ...expected });
});

Deno.test("parseK8sArgs() refuses what the Go library refuses", async (t) => {
  const rows: [string, string, string, Partial<K8sArgs>][] = [
    ["a pair without =", "K8S_POD_NAME:p", 'invalid pair "K8S_POD_NAME:p"', {}],
    ["a pair with two", "K8S_POD_UID=a=b", 'invalid pair "K8S_POD_UID=a=b"', {
      podUid: "a=b",
    }],
    ["an empty pair", "K8S_POD_UID=a;", 'invalid pair ""', { podUid: "a" }],
    ["an unknown key", "A=b;K8S_POD_UID=a", 'unknown args ["A=b"]', {
      podUid: "a",
    }],
    [
      "IgnoreUnknown that is not a boolean",
      "IgnoreUnknown=yes",
      'error parsing value of pair "IgnoreUnknown=yes"',
      {},
    ],
  ];
  for (const [name, text, problem, leniently] of rows) {
    await t.step(name, () => {
      const error = assertThrows(() => parseK8sArgs(text), CniError);
      assertEquals([error.code, error.message], [4, `CNI_ARGS: ${problem}`]);
    });
    await t.step(`${name}, on DEL`, () => {
      const expected = { ...NOTHING, ...leniently };
      assertEquals(parseK8sArgsLeniently(text), expected);
    });
  }
});

function formatArgs(
  k8s: K8sArgs,
  text: string,
  request: AttachmentRequest = {},
): string {
  return delegateArgs(k8s, text, request)
    .map(([key, value]) => `${key}=${value}`).join(";");
}

/** The five keys, filled in. */
const FIVE = "IgnoreUnknown=true;K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0;" +
  "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1";
const EMPTY_FIVE = "IgnoreUnknown=true;K8S_POD_NAMESPACE=;K8S_POD_NAME=;" +
  "K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_UID=";

Deno.test("delegateArgs() lists each key once, in the Go version's order", async (t) => {
  const rows: [string, K8sArgs, string, AttachmentRequest, string][] = [
    ["nothing", NOTHING, "", {}, EMPTY_FIVE],
    ["a pod and no text", POD, "", {}, FIVE],
    ["a pod and its text", POD, POD_TEXT, {}, FIVE],
    ["empty values are filled in", NOTHING, POD_TEXT, {}, FIVE],
    ["empty values fill in nothing", POD, "K8S_POD_UID=", {}, FIVE],
    [
      "the last value wins",
      POD,
      "K8S_POD_NAME=other",
      {},
      FIVE.replace("web-0", "other"),
    ],
    [
      "others come after them",
      POD,
      `B=1;${POD_TEXT};A=2`,
      {},
      `${FIVE};B=1;A=2`,
    ],
    [
      "the last of others wins, at the place of the first",
      POD,
      "B=1;A=2;B=3",
      {},
      `${FIVE};B=3;A=2`,
    ],
    ["a value with = in it", POD, "B=foo=bar==", {}, `${FIVE};B=foo=bar==`],
    ["an empty value of another key", POD, "B=", {}, `${FIVE};B=`],
    ["items that are not pairs", POD, ";B;;A:1", {}, FIVE],
    ["unknown keys stay ignored", POD, "IgnoreUnknown=0", {}, FIVE],
    ["MAC and IP", POD, "B=1", {
      ips: ["10.0.0.2/24", "fd00::2"],
      mac: "c2:11:22:33:44:66",
    }, `${FIVE};B=1;MAC=c2:11:22:33:44:66;IP=10.0.0.2/24,fd00::2`],
    ["MAC and IP in place of others", POD, "IP=10.0.0.1;B=1", {
      ips: ["10.0.0.2"],
    }, `${FIVE};IP=10.0.0.2;B=1`],
    ["no addresses", POD, "", { ips: [], mac: "" }, FIVE],
  ];
  await eachRow(t, rows, ([, k8s, text, request, expected]) => {
    assertEquals(formatArgs(k8s, text, request), expected);
  });
});
