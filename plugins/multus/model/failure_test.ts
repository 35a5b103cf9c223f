import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { multusFailure, withMultusError } from "./failure.ts";
import { parseK8sArgs } from "./k8s_args.ts";

const K8S = parseK8sArgs(
  "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web;K8S_POD_UID=u1",
);

Deno.test("multusFailure() uses the Go version's texts", async (t) => {
  const cause = new CniError(11, "no answer", { details: "in time" });
  const rows: [string, CniError, string][] = [
    ["without a pod", multusFailure(cause), "Multus: no answer"],
    [
      "of a pod",
      multusFailure(cause, { k8s: K8S }),
      "Multus: [ns/web/u1]: no answer",
    ],
    [
      "of a step",
      multusFailure(cause, { k8s: K8S, action: "error saving the delegates" }),
      "Multus: [ns/web/u1]: error saving the delegates: no answer",
    ],
    [
      "of a container without a pod",
      multusFailure(cause, { k8s: parseK8sArgs("") }),
      "Multus: [//]: no answer",
    ],
  ];
  await eachRow(t, rows, ([, { code, message, details }, expected]) => {
    assertEquals([code, message, details], [11, expected, "in time"]);
  });
});

Deno.test("withMultusError() returns results, and wraps failures", async () => {
  assertEquals(await withMultusError({}, () => 7), 7);
  const fail = (): never => {
    throw new TypeError("oh");
  };
  const { code, message } = await assertRejects(
    () => withMultusError({ k8s: K8S }, fail),
    CniError,
  );
  assertEquals([code, message], [999, "Multus: [ns/web/u1]: oh"]);
});
