import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { testRows } from "../../../tests/_harness/table.ts";
import {
  type K8sArgs,
  parseK8sArgs,
  parseK8sArgsLeniently,
} from "./k8s_args.ts";

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
