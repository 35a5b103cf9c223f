import { noAmbient } from "./no_ambient.ts";
import { testRows } from "./testing.ts";

Deno.test("cni/no-ambient accepts what is passed in, and the owners", async (t) => {
  await testRows(t, noAmbient, [
    ["cni/skel.ts", "Deno.exit(1);"],
    ["base/process/stdio.ts", "Deno.stdout.writeSync(bytes);"],
    ["base/process/stdio.ts", "console.log = console.error;"],
    ["main.ts", "const [command] = Deno.args;"],
    ["main.ts", 'Deno.env.get("CNI_COMMAND");'],
    ["cli/main.ts", "Deno.stdin.readable;"],
    ["ffi/libc/call.ts", "Deno.dlopen(path, symbols);"],
    ["ffi/sysctl.ts", "Deno.readTextFileSync(path);"],
    ["base/log/log.ts", "Deno.stderr.writeSync(bytes);"],
    ["cni/invoke/exec.ts", "child.process;"],
    ["cni/invoke/exec.ts", "({ process: 1 }); class A { process = 1; }"],
    ["cni/invoke/exec.ts", "interface A { process(): void; }"],
    ["cni/invoke/exec.ts", "a.Deno.exit; const { exit } = program;"],
    ["cni/call/args.ts", 'env.get("CNI_COMMAND");'],
    ["net/ip_test.ts", "console.log(process.argv, Deno.env);"],
    ["tests/soak_test.ts", "setTimeout(() => {}, 1);"],
    ["scripts/ci.ts", "console.log(Deno.args);"],
  ]);
});

Deno.test("cni/no-ambient refuses globals in product code", async (t) => {
  await testRows(t, noAmbient, [
    ["cni/call/args.ts", "process.env;", 'Product code may not use "process"'],
    [
      "cni/call/args.ts",
      "globalThis.process;",
      'Product code may not use "process"',
    ],
    ["net/ip.ts", "({ process });", 'Product code may not use "process"'],
    ["net/ip.ts", "a[process];", 'Product code may not use "process"'],
    ["net/ip.ts", 'Buffer.from("a");', 'Product code may not use "Buffer"'],
    [
      "cni/wait.ts",
      "setTimeout(f, 1);",
      'Product code may not use "setTimeout"',
    ],
    [
      "cni/invoke/exec.ts",
      "setInterval(f, 1);",
      'Product code may not use "setInterval"',
    ],
    [
      "cni/wait.ts",
      "AbortSignal.any([left, right]);",
      "AbortSignal.any() leaks in a process that stays",
    ],
    ["cni/config/types.ts", "z.catch(schema, 1);", "z.catch() makes 10 KB"],
    ["ffi/file/fd.ts", 'require("fs");', 'Product code may not use "require"'],
    ["cli/main.ts", 'console.log("a");', 'Product code may not use "console"'],
    [
      "cni/skel.ts",
      'console.error("a");',
      'Product code may not use "console"',
    ],
  ]);
});

Deno.test("cni/no-ambient refuses the process's state outside its owners", async (t) => {
  await testRows(t, noAmbient, [
    ["plugins/ptp/plugin.ts", "Deno.exit(1);", `Deno.exit belongs to`],
    ["plugins/ptp/plugin.ts", "Deno.exitCode = 1;", `Deno.exitCode belongs to`],
    ["cni/call/args.ts", "Deno.args;", `Deno.args belongs to`],
    ["cni/call/args.ts", 'Deno.env.get("A");', `Deno.env belongs to`],
    ["base/log/log.ts", "Deno.stdout.writeSync(a);", `Deno.stdout belongs to`],
    ["ipam/static/plugin.ts", "Deno.stdin.readable;", `Deno.stdin belongs to`],
    ["base/log/log.ts", 'Deno["stdout"];', `Deno.stdout belongs to`],
    ["base/log/log.ts", "globalThis.Deno.stdout;", `Deno.stdout belongs to`],
    ["base/log/log.ts", "const { stdout } = Deno;", `Deno.stdout belongs to`],
    ["ffi/netns.ts", "Deno.dlopen(a, b);", "Deno.dlopen belongs to ffi/"],
  ]);
});
