import { layers } from "./layers.ts";
import { testRows } from "./diagnose.ts";

Deno.test("cni/layers accepts imports that point downward", async (t) => {
  await testRows(t, layers, [
    ["net/cidr.ts", 'import { Ip } from "./ip.ts";'],
    ["ffi/rtnl/link.ts", 'import { open } from "../netlink/socket.ts";'],
    ["ffi/rtnl/link.ts", 'import { Mac } from "../../net/mac.ts";'],
    ["cni/result/result.ts", 'import type { Cidr } from "../../net/cidr.ts";'],
    ["cni/config/types.ts", 'import * as z from "zod/mini";'],
    ["cni/libcni/cache.ts", 'import { join } from "@std/path/posix";'],
    ["cni/libcni/cache.ts", 'import { join } from "@std/path/posix/join";'],
    ["plugins/parts/a.ts", 'import { Rtnl } from "../../ffi/rtnl/mod.ts";'],
    ["plugins/parts/a.ts", 'export * from "./check_link.ts";'],
    ["plugins/ptp/plugin.ts", 'import { a } from "../parts/a.ts";'],
    ["plugins/ptp/plugin.ts", 'import { Rtnl } from "../../ffi/rtnl/mod.ts";'],
    ["plugins/multus/model/config.ts", 'import * as z from "zod/mini";'],
    ["plugins/multus/add.ts", 'import { a } from "./select/select.ts";'],
    [
      "plugins/multus/select/select.ts",
      'import { findPod } from "../pod/pod.ts";',
    ],
    ["plugins/parts/dns.ts", 'import * as z from "zod/mini";'],
    ["plugins/multus/plugin.ts", 'import { Config } from "./config.ts";'],
    ["plugins/ptp/plugin.ts", 'import { runMain } from "../../cni/skel.ts";'],
    [
      "plugins/lists/loaders.ts",
      'const a = () => import("../ptp/plugin.ts");',
    ],
    [
      "plugins/lists/loaders.ts",
      'const a = () => import("../../ipam/static/plugin.ts");',
    ],
    ["plugins/registry.ts", 'import type { Plugin } from "../cni/plugin.ts";'],
    ["main.ts", 'import { find } from "./plugins/registry.ts";'],
    ["ipam/host_local/config.ts", 'import * as z from "zod/mini";'],
    [
      "ipam/host_local/store.ts",
      'import { lock } from "../../cni/files/lock.ts";',
    ],
    [
      "cli/commands/add.ts",
      'import { find } from "../../plugins/registry.ts";',
    ],
    ["cli/main.ts", 'import { add } from "./commands/add.ts";'],
    ["mod.ts", 'export { dispatch } from "./cni/skel.ts";'],
    ["libcni.ts", 'export * from "./node/network/mod.ts";'],
    ["mod.ts", 'export { Rtnl } from "./ffi/rtnl/mod.ts";'],
    ["libcni.ts", 'export * from "./plugins/registry.ts";'],
    ["kube/node_transport.ts", 'import("node:https");'],
    ["net/ip_test.ts", 'import { Rtnl } from "../ffi/rtnl/mod.ts";'],
    ["net/ip_test.ts", 'import { join } from "@std/path";'],
    ["tests/chain_test.ts", 'import { find } from "../plugins/registry.ts";'],
    ["scripts/ci.ts", 'import { join } from "node:path";'],
  ]);
});

Deno.test("cni/layers refuses imports against the layering", async (t) => {
  await testRows(t, layers, [
    [
      "net/ip.ts",
      'import { a } from "../cni/error.ts";',
      '"net/" may not import "cni/error.ts"',
    ],
    [
      "ffi/fd.ts",
      'import { a } from "../cni/error.ts";',
      '"ffi/" may not import "cni/error.ts"',
    ],
    [
      "cni/skel.ts",
      'import { a } from "../ffi/netns.ts";',
      '"cni/" may not import "ffi/netns.ts"',
    ],
    [
      "cni/skel.ts",
      'import { a } from "../plugins/registry.ts";',
      '"cni/" may not import "plugins/registry.ts"',
    ],
    [
      "plugins/parts/a.ts",
      'import { a } from "../ptp/plugin.ts";',
      '"plugins/parts/" may not import "plugins/ptp/plugin.ts"',
    ],
    [
      "plugins/ptp/plugin.ts",
      'import { a } from "../bridge/plugin.ts";',
      '"plugins/ptp/" may not import "plugins/bridge/plugin.ts"',
    ],
    [
      "plugins/ptp/plugin.ts",
      'import { a } from "../../ipam/static/plugin.ts";',
      '"plugins/ptp/" may not import "ipam/static/plugin.ts"',
    ],
    [
      "plugins/multus/delegates.ts",
      'import { a } from "../registry.ts";',
      '"plugins/multus/" may not import "plugins/registry.ts"',
    ],
    [
      "plugins/multus/model/delegate.ts",
      'import { a } from "../pod/pod.ts";',
      '"plugins/multus/model/" may not import "plugins/multus/pod/pod.ts"',
    ],
    [
      "plugins/multus/pod/pod.ts",
      'import { a } from "../select/select.ts";',
      '"plugins/multus/pod/" may not import "plugins/multus/select/select.ts"',
    ],
    [
      "plugins/multus/select/select.ts",
      'import { a } from "../attach/attach.ts";',
      '"plugins/multus/select/" may not import "plugins/multus/attach/attach.ts"',
    ],
    [
      "plugins/multus/select/select.ts",
      'import { a } from "../session.ts";',
      '"plugins/multus/select/" may not import "plugins/multus/session.ts"',
    ],
    [
      "plugins/multus/attach/attach.ts",
      'import { a } from "../route/default_route.ts";',
      '"plugins/multus/attach/" may not import "plugins/multus/route/default_route.ts"',
    ],
    [
      "plugins/multus/route/default_route.ts",
      'import { a } from "../report/report.ts";',
      '"plugins/multus/route/" may not import "plugins/multus/report/report.ts"',
    ],
    [
      "plugins/multus/report/report.ts",
      'import { a } from "../session.ts";',
      '"plugins/multus/report/" may not import "plugins/multus/session.ts"',
    ],
    [
      "plugins/multus/memory/scratch_cache.ts",
      'import { a } from "../del.ts";',
      '"plugins/multus/memory/" may not import "plugins/multus/del.ts"',
    ],
    [
      "plugins/multus/devices/device_info.ts",
      'import { a } from "../select/select.ts";',
      '"plugins/multus/devices/" may not import "plugins/multus/select/select.ts"',
    ],
    [
      "plugins/multus/log/operation_log.ts",
      'import { a } from "../pod/pod.ts";',
      '"plugins/multus/log/" may not import "plugins/multus/pod/pod.ts"',
    ],
    [
      "plugins/lists/loaders.ts",
      'import { a } from "../ptp/plugin.ts";',
      '"plugins/lists/loaders.ts" may import "plugins/ptp/plugin.ts" only by import()',
    ],
    [
      "plugins/registry.ts",
      'import("./multus/plugin.ts");',
      '"plugins/registry.ts" may not import "plugins/multus/plugin.ts"',
    ],
    [
      "ipam/host_local/store.ts",
      'import { a } from "../../ffi/packet.ts";',
      '"ipam/host_local/" may not import "ffi/packet.ts"',
    ],
    [
      "ipam/dhcp/client.ts",
      'import { a } from "../../ffi/netns.ts";',
      '"ipam/dhcp/" may not import "ffi/netns.ts"',
    ],
    [
      "ipam/dhcp/client.ts",
      'import { a } from "../static/plugin.ts";',
      '"ipam/dhcp/" may not import "ipam/static/plugin.ts"',
    ],
    [
      "cli/main.ts",
      'import { a } from "../plugins/ptp/plugin.ts";',
      '"cli/" may not import "plugins/ptp/plugin.ts"',
    ],
    [
      "mod.ts",
      'export * from "./node/network/mod.ts";',
      '"mod.ts" may not import "node/network/mod.ts"',
    ],
    [
      "mod.ts",
      'export * from "./scripts/ci.ts";',
      '"mod.ts" may not import "scripts/ci.ts"',
    ],
    [
      "mod.ts",
      'export * from "../elsewhere.ts";',
      '"mod.ts" may not import "../elsewhere.ts"',
    ],
    [
      "cni/skel.ts",
      'import { a } from "../testing/ip_json.ts";',
      '"cni/" may not import "testing/ip_json.ts"',
    ],
    [
      "plugins/stray.ts",
      'import { a } from "../cni/error.ts";',
      '"plugins/stray.ts" belongs to no layer',
    ],
  ]);
});

Deno.test("cni/layers sees every form of import", async (t) => {
  const message = '"net/" may not import "ffi/fd.ts"';
  await testRows(t, layers, [
    ["net/ip.ts", 'import "../ffi/fd.ts";', message],
    ["net/ip.ts", 'import type { Fd } from "../ffi/fd.ts";', message],
    ["net/ip.ts", 'export * from "../ffi/fd.ts";', message],
    ["net/ip.ts", 'export { Fd } from "../ffi/fd.ts";', message],
    ["net/ip.ts", 'export type { Fd } from "../ffi/fd.ts";', message],
    ["net/ip.ts", 'const a = await import("../ffi/fd.ts");', message],
    ["net/ip.ts", 'type Fd = import("../ffi/fd.ts").Fd;', message],
    ["net/ip.ts", 'let a: typeof import("../ffi/fd.ts");', message],
    ["net/ip.ts", 'import a = require("../ffi/fd.ts");', message],
    ["net/ip.ts", "import(name);", "import() needs a string literal"],
    ["net/ip.ts", "import(`./${a}.ts`);", "import() needs a string literal"],
  ]);
});

Deno.test("cni/layers refuses packages that slow the start", async (t) => {
  await testRows(t, layers, [
    ["cni/log/log.ts", 'import * as z from "zod";', 'Import "zod/mini"'],
    ["cni/log/log.ts", 'import * as z from "zod/v4";', 'Import "zod/mini"'],
    ["net/ip.ts", 'import * as z from "zod/mini";', '"net/ip.ts" may not'],
    ["cli/main.ts", 'import * as z from "zod/mini";', '"cli/main.ts" may not'],
    [
      "cni/log/log.ts",
      'import { a } from "@std/path";',
      'Import "@std/path/posix"',
    ],
    [
      "cni/log/log.ts",
      'import { join } from "@std/path/join";',
      'Import "@std/path/posix" rather than "@std/path/join"',
    ],
    [
      "cni/log/log.ts",
      'import { join } from "@std/path/posixish";',
      'Import "@std/path/posix"',
    ],
    [
      "cni/log/log.ts",
      'import { join } from "node:path";',
      'Product code may not import "node:path"',
    ],
    [
      "kube/fetch_transport.ts",
      'import("node:https");',
      'Product code may not import "node:https"',
    ],
    ["cni/log/log.ts", 'import a from "npm:zod@4/mini";', "Import"],
    ["cni/log/log.ts", 'import a from "jsr:@std/path@1/posix";', "Import"],
    ["cni/log/log.ts", 'import a from "https://example.com/a.ts";', "Import"],
  ]);
});
