import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { Environment } from "../../cni/call/args.ts";
import { CniError } from "../../cni/error.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { parseK8sArgs } from "./model/attachment.ts";
import {
  asMultus,
  enterRecursion,
  isRecursion,
  multusFailure,
} from "./session.ts";

const ETH0 = { containerId: "c1", ifName: "eth0" };

Deno.test("enterRecursion() adds a variable to the environment of delegates", () => {
  const env = { PATH: "/bin", CNI_IFNAME: "eth0" };
  const inner = enterRecursion(env, ETH0);
  assertEquals(Object.keys(inner).length, 3);
  assertEquals({ ...inner, ...env }, inner);
  assertEquals([isRecursion(env, ETH0), isRecursion(inner, ETH0)], [
    false,
    true,
  ]);
});

Deno.test("enterRecursion() only refuses the attachment in progress", async (t) => {
  const inner = enterRecursion({}, ETH0);
  const rows: [string, { containerId: string; ifName: string }, boolean][] = [
    ["the same", ETH0, true],
    ["another interface", { ...ETH0, ifName: "eth1" }, false],
    ["another container", { ...ETH0, containerId: "c2" }, false],
    ["a longer name", { ...ETH0, ifName: "eth00" }, false],
    ["none", { containerId: "", ifName: "" }, false],
  ];
  await eachRow(t, rows, ([, args, isRefused]) => {
    const enter = (): Environment => enterRecursion(inner, args);
    if (!isRefused) return void enter();
    const message = "it was called by one of its own delegates";
    assertEquals(assertThrows(enter, CniError, message).code, 7);
  });
});

Deno.test("enterRecursion() detects a nested attachment, and STATUS within STATUS", () => {
  const eth1 = { ...ETH0, ifName: "eth1" };
  const inner = enterRecursion(enterRecursion({}, ETH0), eth1);
  assertEquals([isRecursion(inner, ETH0), isRecursion(inner, eth1)], [
    true,
    true,
  ]);
  const none = { containerId: "", ifName: "" };
  assert(isRecursion(enterRecursion({}, none), none));
});

Deno.test("enterRecursion() also stops a loop with a new interface name each time", () => {
  let env: Environment = {};
  const enterAll = (): void => {
    for (let index = 0; index < 100; index++) {
      env = enterRecursion(env, { ...ETH0, ifName: `eth${index}` });
    }
  };
  assertThrows(enterAll, CniError, "its own delegates");
});

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

Deno.test("asMultus() returns results, and wraps failures", async () => {
  assertEquals(await asMultus({}, () => 7), 7);
  const fail = (): never => {
    throw new TypeError("oh");
  };
  const { code, message } = await assertRejects(
    () => asMultus({ k8s: K8S }, fail),
    CniError,
  );
  assertEquals([code, message], [999, "Multus: [ns/web/u1]: oh"]);
});
