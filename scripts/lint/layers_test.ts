import { layers } from "./layers.ts";
import { testRows } from "./testing.ts";

Deno.test("cni/layers accepts imports that point downward", async (t) => {
  await testRows(t, layers, [
    ["net/cidr.ts", 'import { Ip } from "./ip.ts";'],
    ["ffi/rtnl/link.ts", 'import { Mac } from "../../net/mac.ts";'],
    ["plugins/ptp/plugin.ts", 'import { Rtnl } from "../../ffi/rtnl/mod.ts";'],
    ["plugins/ptp/plugin.ts", 'import { a } from "./check.ts";'],
    [
      "plugins/lists/loaders.ts",
      'const a = () => import("../ptp/plugin.ts");',
    ],
    ["mod.ts", 'export { Rtnl } from "./ffi/rtnl/mod.ts";'],
    ["net/ip_test.ts", 'import { Rtnl } from "../ffi/rtnl/mod.ts";'],
    ["scripts/test.ts", 'import { a } from "../plugins/registry.ts";'],
  ]);
});

Deno.test("cni/layers refuses imports against the layering", async (t) => {
  await testRows(t, layers, [
    [
      "net/ip.ts",
      'import { a } from "../plugins/registry.ts";',
      '"net/" may not import "plugins/registry.ts"',
    ],
    [
      "plugins/ptp/plugin.ts",
      'import { a } from "../bridge/plugin.ts";',
      '"plugins/ptp/" may not import "plugins/bridge/plugin.ts"',
    ],
    [
      "plugins/lists/loaders.ts",
      'import { a } from "../ptp/plugin.ts";',
      '"plugins/lists/loaders.ts" may import "plugins/ptp/plugin.ts" only by import()',
    ],
    [
      "mod.ts",
      'export * from "./scripts/test.ts";',
      '"mod.ts" may not import "scripts/test.ts"',
    ],
    [
      "mod.ts",
      'export * from "../elsewhere.ts";',
      '"mod.ts" may not import "../elsewhere.ts"',
    ],
    [
      "net/ip.ts",
      'import { a } from "../testing/ip_json.ts";',
      '"net/" may not import "testing/ip_json.ts"',
    ],
    [
      "plugins/stray.ts",
      'import { a } from "../net/ip.ts";',
      '"plugins/stray.ts" belongs to no layer',
    ],
  ]);
});

Deno.test("cni/layers sees every form of import", async (t) => {
  const message = '"net/" may not import "ffi/file/fd.ts"';
  await testRows(t, layers, [
    ["net/ip.ts", 'import "../ffi/file/fd.ts";', message],
    ["net/ip.ts", 'import type { Fd } from "../ffi/file/fd.ts";', message],
    ["net/ip.ts", 'export * from "../ffi/file/fd.ts";', message],
    ["net/ip.ts", 'export { Fd } from "../ffi/file/fd.ts";', message],
    ["net/ip.ts", 'export type { Fd } from "../ffi/file/fd.ts";', message],
    ["net/ip.ts", 'const a = await import("../ffi/file/fd.ts");', message],
    ["net/ip.ts", 'type Fd = import("../ffi/file/fd.ts").Fd;', message],
    ["net/ip.ts", 'let a: typeof import("../ffi/file/fd.ts");', message],
    ["net/ip.ts", 'import a = require("../ffi/file/fd.ts");', message],
    ["net/ip.ts", "import(name);", "import() needs a string literal"],
    ["net/ip.ts", "import(`./${a}.ts`);", "import() needs a string literal"],
  ]);
});

Deno.test("cni/layers refuses packages that slow the start", async (t) => {
  await testRows(t, layers, [
    ["kube/api.ts", 'import * as z from "zod/mini";'],
    ["kube/api.ts", 'import * as z from "zod";', 'Import "zod/mini"'],
    ["net/ip.ts", 'import * as z from "zod/mini";', '"net/ip.ts" may not'],
    ["net/ip.ts", 'import { join } from "@std/path/posix/join";'],
    [
      "net/ip.ts",
      'import { join } from "@std/path/posixish";',
      'Import "@std/path/posix"',
    ],
    ["kube/node_transport.ts", 'import("node:https");'],
    [
      "kube/fetch_transport.ts",
      'import("node:https");',
      'Product code may not import "node:https"',
    ],
    ["net/ip.ts", 'import a from "npm:zod@4/mini";', "Import"],
    ["net/ip.ts", 'import a from "jsr:@std/path@1/posix";', "Import"],
    ["net/ip.ts", 'import a from "https://example.com/a.ts";', "Import"],
  ]);
});
