import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Environment } from "../../../base/process/environment.ts";
import { CniError } from "../../../base/error.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { enterRecursion, isRecursion } from "./recursion.ts";

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

Deno.test("enterRecursion() refuses only the attachment in progress", async (t) => {
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
