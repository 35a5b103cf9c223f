import {
  assertEquals,
  assertInstanceOf,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { CniError, toCniError } from "../base/error.ts";
import {
  checkPodArgs,
  formatFullName,
  listPodArgs,
  type Pod,
  PodNetworkError,
  type PodOperation,
} from "./pod.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const POD: Pod = {
  namespace: "default",
  name: "web",
  containerId: "c1",
  netns: "/run/netns/c1",
};

Deno.test("formatFullName() puts the name first", () => {
  assertEquals(formatFullName(POD), "web_default");
});

Deno.test("listPodArgs() returns the kubelet's order", () => {
  const pod = { ...POD, uid: "u1", cniArgs: [["IP", "10.1.2.3"]] as const };
  assertEquals(listPodArgs(pod), [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", "default"],
    ["K8S_POD_NAME", "web"],
    ["K8S_POD_INFRA_CONTAINER_ID", "c1"],
    ["K8S_POD_UID", "u1"],
    ["IP", "10.1.2.3"],
  ]);
});

Deno.test("listPodArgs() omits an unknown UID", () => {
  const keys = listPodArgs(POD).map(([key]) => key);
  assertEquals(keys.includes("K8S_POD_UID"), false);
});

Deno.test("checkPodArgs() refuses empty names, and names that CNI_ARGS would split", async (t) => {
  checkPodArgs(POD);
  const rows: [name: string, pod: Partial<Pod>][] = [
    ["no name", { name: "" }],
    ["no namespace", { namespace: "" }],
    ["no container", { containerId: "" }],
    ["one more pair", { name: "web;IP=10.0.0.1" }],
    ["one more value", { uid: "a=b" }],
    ["no key", { cniArgs: [["", "b"]] }],
    ["no value", { cniArgs: [["a", ""]] }],
  ];
  await eachRow(t, rows, ([, pod]) => {
    const error = assertThrows(
      () => checkPodArgs({ ...POD, ...pod }),
      CniError,
      "into CNI_ARGS",
    );
    assertEquals(error.code, 4);
  });
});

testRows<[PodOperation, string]>("PodNetworkError speaks as kubelet does", [
  [
    "set_up_pod",
    'networkPlugin cni failed to set up pod "web_default" network: no',
  ],
  [
    "tear_down_pod",
    'networkPlugin cni failed to teardown pod "web_default" network: no',
  ],
  [
    "get_pod_network_status",
    'networkPlugin cni failed on the status hook for pod "web_default": no',
  ],
  [
    "check_pod",
    'networkPlugin cni failed to check pod "web_default" network: no',
  ],
], ([operation, text]) => {
  const error = new PodNetworkError(operation, POD, new Error("no"));
  assertEquals(`${error}`, text);
  assertEquals([error.operation, error.pod], [operation, "web_default"]);
});

Deno.test("PodNetworkError keeps the typed error, however deep it is", () => {
  const inner = new CniError(51, "half dead", { details: "why" });
  const cause = new Error('plugin type="a" failed (add)', { cause: inner });
  const error = new PodNetworkError("set_up_pod", POD, cause);
  assertEquals(error.code, 51);
  assertStrictEquals(error.cause, cause);
  assertInstanceOf(error, CniError);
  assertStrictEquals(toCniError(error), error);
  assertEquals(
    `${error}`,
    'networkPlugin cni failed to set up pod "web_default" network: ' +
      'plugin type="a" failed (add): half dead: why',
  );
});
