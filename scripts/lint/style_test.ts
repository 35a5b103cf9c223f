import { testRows } from "./diagnose.ts";
import {
  errorMessage,
  noDefaultExport,
  noEnum,
  noPrivateKeyword,
} from "./style.ts";

Deno.test("cni/no-enum refuses enums", async (t) => {
  const message = 'Declare an object "as const"';
  await testRows(t, noEnum, [
    ["net/ip.ts", "const Family = { Ip4: 4, Ip6: 6 } as const;"],
    ["net/ip.ts", "enum Family { Ip4, Ip6 }", message],
    ["net/ip.ts", "export const enum Family { Ip4, Ip6 }", message],
  ]);
});

Deno.test("cni/no-private-keyword refuses what # can say", async (t) => {
  const message = 'Write "#" rather than "private"';
  await testRows(t, noPrivateKeyword, [
    ["net/ip.ts", "class A { #a = 1; #f() {} get #b() { return 1; } }"],
    ["net/ip.ts", "class A { private constructor(a: string) { super(); } }"],
    ["net/ip.ts", "class A { private = 1; }"],
    ["net/ip.ts", "class A { private(): void {} }"],
    ["net/ip.ts", "class A { private?: string; privateKey = 1; }"],
    ["net/ip.ts", "class A { private a = 1; }", message],
    ["net/ip.ts", "class A { private readonly a = 1; }", message],
    ["net/ip.ts", "class A { private static f() {} }", message],
    ["net/ip.ts", "class A { private get a() { return 1; } }", message],
    ["net/ip.ts", "class A { private accessor a = 1; }", message],
    ["net/ip.ts", "class A { constructor(private a: string) {} }", message],
    ["net/ip.ts", "abstract class A { private abstract a: 1; }", message],
    ["net/ip_test.ts", "class A { private async f() {} }", message],
  ]);
});

Deno.test("cni/no-default-export refuses default exports", async (t) => {
  await testRows(t, noDefaultExport, [
    ["net/ip.ts", "export const a = 1;"],
    ["net/ip.ts", "export { a };"],
    ["scripts/lint_plugin.ts", "export default plugin;"],
    ["net/ip.ts", "export default 1;", "Export by name"],
    ["net/ip.ts", "export default class A {}", "Export by name"],
    ["net/ip.ts", "export { a as default };", "Export by name"],
    ["net/ip.ts", 'export { default } from "./a.ts";', "Export by name"],
    ["scripts/lint/style.ts", "export default 1;", "Export by name"],
  ]);
});

Deno.test("cni/error-message refuses periods and prefixes", async (t) => {
  const period = "An error message ends without a period";
  const prefix = 'An error message begins without "Error:"';
  await testRows(t, errorMessage, [
    ["net/ip.ts", 'new Error("Cannot parse the address");'],
    ["net/ip.ts", "new RangeError(`Cannot parse ${text}`);"],
    ["net/ip.ts", "new RangeError(`Cannot parse 10.0.0.${text}`);"],
    ["net/ip.ts", "new Error(text, { cause });"],
    ["net/ip.ts", 'new URL("https://example.com.");'],
    ["net/ip_test.ts", 'new Error("Error: as others write it.");'],
    ["net/ip.ts", 'new Error("Cannot parse it.");', period],
    ["net/ip.ts", "throw new Error(`Cannot parse ${text}.`);", period],
    ["net/ip.ts", 'new Error("Cannot parse " + text + ".");', period],
    ["net/ip.ts", 'new Error("Error: no address");', prefix],
    ["net/ip.ts", "new TypeError(`error: ${text}`);", prefix],
    ["cni/skel.ts", 'new CniError(7, "Cannot read it.");', period],
    ["cni/skel.ts", 'new CniError(7, "Error: cannot read it");', prefix],
    ["cni/skel.ts", 'new AggregateError(errors, "Cannot delete.");', period],
  ]);
});
