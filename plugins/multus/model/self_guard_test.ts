import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Environment } from "../../../cni/call/args.ts";
import { CniError } from "../../../cni/error.ts";
import { loadDelegate } from "./delegate.ts";
import { enterRecursion, isRecursion, refuseSelf } from "./self_guard.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

Deno.test("refuseSelf() detects multus by the types in a configuration", async (t) => {
  const inner = { type: "multus" };
  const rows: [object, boolean][] = [
    [{ type: "multus" }, true],
    [{ type: "multus-shim" }, true],
    [{ type: "multus-daemon" }, true],
    [{ TYPE: "multus" }, true],
    [{ plugins: [{ type: "bridge" }, inner] }, true],
    [{ type: "flannel", delegate: inner }, true],
    [{ type: "x", Delegates: [{ plugins: [inner] }] }, true],
    [{ type: "bridge", ipam: inner }, true],
    [{ type: "bridge" }, false],
    [{ type: "multus-like" }, false],
    [{ type: "bridge", name: "multus" }, false],
    [{ type: "bridge", labels: inner }, false],
    [{ type: "x", delegate: { type: ["multus"] } }, false],
    [{ type: "x", delegates: null }, false],
  ];
  await eachRow(t, rows, ([document, isSelf]) => {
    const text = JSON.stringify({ name: "n", ...document });
    const delegate = loadDelegate(new TextEncoder().encode(text));
    const refuse = (): void => refuseSelf(delegate);
    if (!isSelf) return refuse();
    const message = 'Cannot attach to network "n": multus would call itself';
    assertEquals(assertThrows(refuse, CniError, message).code, 7);
  }, ([document]) => JSON.stringify(document));
});

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
