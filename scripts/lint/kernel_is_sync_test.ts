import { kernelIsSync } from "./kernel_is_sync.ts";
import { testRows } from "./testing.ts";

Deno.test("cni/kernel-is-sync accepts synchronous kernel code", async (t) => {
  await testRows(t, kernelIsSync, [
    ["ffi/sysctl.ts", "Deno.readTextFileSync(path);"],
    ["ffi/sysctl.ts", "for (const key of keys) { write(key); }"],
    ["ffi/file/fd.ts", "using fd = open(path);"],
    ["ffi/libc/background.ts", "const a = { nonblocking: false };"],
    ["ffi/libc/background.ts", "new Deno.Command(path).outputSync();"],
    ["scripts/demo.ts", "inNetns(ns, () => new Deno.Command(path).spawn());"],
    [
      "ffi/netns.ts",
      "type Sync<T> = T extends PromiseLike<unknown> ? never : T;",
    ],
    ["ffi/netns.ts", "inNetns(ns, () => Deno.statSync(path));"],
    ["ffi/netns_test.ts", "async () => { await assertRejects(f); };"],
    [
      "plugins/ptp/plugin.ts",
      "async function add() { await call.ipam.add(); }",
    ],
    ["plugins/ptp/plugin.ts", "await ask(inNetns(ns, () => read()));"],
    ["plugins/ptp/plugin.ts", "inNetns(await open(path), () => read());"],
  ]);
});

Deno.test("cni/kernel-is-sync refuses asynchrony in ffi/", async (t) => {
  await testRows(t, kernelIsSync, [
    [
      "ffi/file/fd.ts",
      "async function f() {}",
      "ffi/ is synchronous: an async",
    ],
    [
      "ffi/file/fd.ts",
      "const f = async () => {};",
      "ffi/ is synchronous: an async",
    ],
    [
      "ffi/file/fd.ts",
      "class A { async f() {} }",
      "ffi/ is synchronous: an async",
    ],
    ["ffi/file/fd.ts", "await f();", "ffi/ is synchronous: await"],
    [
      "ffi/file/fd.ts",
      "for await (const a of b) {}",
      "ffi/ is synchronous: for",
    ],
    [
      "ffi/file/fd.ts",
      "await using a = b;",
      "ffi/ is synchronous: await using",
    ],
    [
      "ffi/file/fd.ts",
      "function f(): Promise<void> { return g(); }",
      "ffi/ is synchronous: a Promise",
    ],
    [
      "ffi/libc/background.ts",
      "const a = { nonblocking: true };",
      "ffi/ is synchronous: a nonblocking symbol",
    ],
    [
      "ffi/sysctl.ts",
      "Deno.readTextFile(path).then(f);",
      "ffi/ is synchronous: Deno.readTextFile()",
    ],
    ["ffi/file/fd.ts", "Deno.open(path);", "ffi/ is synchronous: Deno.open()"],
    ["ffi/file/fd.ts", "command.output();", "ffi/ is synchronous: output()"],
  ]);
});

Deno.test("cni/kernel-is-sync refuses asynchrony in inNetns() anywhere", async (t) => {
  const start = "an inNetns() callback is synchronous: ";
  await testRows(t, kernelIsSync, [
    [
      "plugins/ptp/plugin.ts",
      "inNetns(ns, async () => {});",
      `${start}an async function`,
    ],
    [
      "plugins/ptp/plugin.ts",
      "inNetns(ns, function () { await f(); });",
      `${start}await`,
    ],
    [
      "plugins/ptp/plugin.ts",
      "netns.inNetns(ns, () => { Deno.readTextFile(path); });",
      `${start}Deno.readTextFile()`,
    ],
    [
      "plugins/chain/effects_test.ts",
      "inNetns(ns, () => command.output());",
      `${start}output()`,
    ],
  ]);
});
