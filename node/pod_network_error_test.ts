import {
  assertEquals,
  assertInstanceOf,
  assertStrictEquals,
} from "@std/assert";
import { CniError, toCniError } from "../base/error.ts";
import { PodNetworkError, type PodOperation } from "./pod_network_error.ts";
import { testRows } from "../tests/_harness/table.ts";

const POD = { namespace: "default", name: "web" };

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
