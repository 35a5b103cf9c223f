/**
 * Lint rule `cni/layers`: who may import whom.
 *
 * @module
 */

import {
  isIn,
  matchedPart,
  productPath,
  resolveImport,
} from "./project_files.ts";

/** A row of the layering: the files it is about, and what they may import. */
interface Layer {
  /** See `matchedPart`; what matched is also the files' own, free to import. */
  readonly files: string;
  readonly mayImport: readonly string[];
  /** May only be imported lazily, with `import()`. */
  readonly mayLoad: readonly string[];
}

function layer(
  files: string,
  mayImport: readonly string[],
  mayLoad: readonly string[] = [],
): Layer {
  return { files, mayImport, mayLoad };
}

/** The layering of ARCHITECTURE.md. The first row that matches a file counts. */
const LAYERS: readonly Layer[] = [
  layer("net/", []),
  layer("ffi/", ["net/"]),
  layer("cni/", ["net/"], [
    "ffi/socket/journal.ts",
    "ffi/file/regular_file.ts",
  ]),
  layer("kube/", ["net/", "cni/"]),
  layer("plugins/parts/", ["net/", "ffi/", "cni/"]),
  layer("plugins/registry.ts", ["cni/", "plugins/lists/loaders.ts"]),
  layer("plugins/renamed.ts", [
    "cni/",
    "plugins/registry.ts",
    "plugins/lists/loaders.ts",
  ]),
  layer("plugins/abouts.ts", ["cni/", "plugins/lists/abouts.ts"]),
  layer("plugins/lists/loaders.ts", ["cni/"], [
    "plugins/*/plugin.ts",
    "ipam/*/plugin.ts",
  ]),
  ...["about", "keys", "leftovers", "needs"].map((file) =>
    layer(`plugins/lists/${file.replace(/t$/, "ts")}.ts`, [
      "cni/",
      `plugins/*/${file}.ts`,
      `ipam/*/${file}.ts`,
    ])
  ),
  layer("daemon/wire/", ["net/", "cni/"], ["ffi/file/regular_file.ts"]),
  layer("daemon/caller/", ["cni/", "daemon/wire/", "ffi/socket/unix_stream.ts"], [
    "plugins/multus/thick/client.ts",
  ]),
  layer("main.ts", [
    "net/",
    "ffi/",
    "cni/",
    "daemon/caller/ask_daemon.ts",
    "plugins/registry.ts",
  ], [
    "plugins/multus/thick/shim.ts",
    "cli/main.ts",
    "cli/plugins/plugin_help.ts",
    "plugins/renamed.ts",
    "plugins/multus/command.ts",
    "ipam/dhcp/command.ts",
    "plugins/noop/main.ts",
    "cli/trace/start.ts",
    "cli/trace/start_spans.ts",
  ]),
  // The rooms of multus, from the ground to the operations at the top.
  layer("plugins/multus/model/", ["net/", "cni/", "kube/api_timeout.ts"]),
  layer("plugins/multus/log/", ["cni/", "plugins/multus/model/"]),
  layer("plugins/multus/memory/", ["net/", "cni/", "plugins/multus/model/"]),
  layer("plugins/multus/devices/", [
    "net/",
    "cni/",
    "kube/",
    "plugins/multus/model/",
  ]),
  layer("plugins/multus/pod/", ["cni/", "kube/", "plugins/multus/model/"]),
  layer("plugins/multus/select/", [
    "net/",
    "cni/",
    "kube/",
    "plugins/multus/model/",
    "plugins/multus/devices/",
    "plugins/multus/pod/",
  ]),
  layer("plugins/multus/attach/", [
    "cni/",
    "ffi/rtnl/",
    "plugins/multus/model/",
    "plugins/multus/devices/",
  ]),
  layer("plugins/multus/route/", [
    "net/",
    "ffi/",
    "cni/",
    "plugins/parts/",
    "plugins/multus/model/",
  ]),
  layer("plugins/multus/report/", [
    "cni/",
    "kube/",
    "plugins/multus/model/",
    "plugins/multus/pod/",
  ]),
  layer("plugins/multus/", [
    "net/",
    "ffi/",
    "cni/",
    "kube/",
    "plugins/parts/",
  ]),
  // Another name of remote.
  layer("plugins/contivk8s/", [
    "cni/tools/about.ts",
    "cni/tools/plugin_keys.ts",
    "plugins/remote/",
  ]),
  layer("plugins/*/", ["net/", "ffi/", "cni/", "plugins/parts/"]),
  layer("ipam/whereabouts/", ["net/", "cni/", "kube/"]),
  layer("ipam/*/", ["net/", "cni/"]),
  layer("node/", ["net/", "ffi/", "cni/"]),
  layer("node/", [
    "net/",
    "ffi/",
    "cni/",
    "kube/",
    "plugins/parts/",
    "ipam/",
    "plugins/lists/leftovers.ts",
    "plugins/registry.ts",
  ]),
  layer("daemon/service/", ["ffi/", "cni/"]),
  layer("daemon/", [
    "net/",
    "ffi/",
    "cni/",
    "kube/",
    "plugins/parts/",
    "plugins/multus/",
    "ipam/",
  ]),
  layer("base/command_line/", ["ffi/", "cni/"]),
  // What `cni conform` and tests of plugins share.
  layer("testing/conform/in_process_way.ts", [
    "cni/",
    "plugins/registry.ts",
    "testing/",
  ]),
  layer("testing/conform/", [
    "net/",
    "ffi/",
    "cni/",
    "testing/ip_json.ts",
  ]),
  layer("cli/", [
    "testing/conform/",
    "net/",
    "ffi/",
    "cni/",
    "kube/",
    "ipam/",
    "plugins/bridge/gateway.ts",
    "plugins/multus/",
    "plugins/parts/",
    "plugins/abouts.ts",
    "plugins/lists/",
    "plugins/registry.ts",
    "plugins/renamed.ts",
    "node/",
    "daemon/",
    "deploy/daemon/",
  ]),
  // The entry points: importing one must not load the others.
  layer("mod.ts", ["net/", "ffi/", "cni/", "plugins/parts/"]),
  layer("nftables.ts", ["ffi/"]),
  layer("traffic_control.ts", ["ffi/"]),
  layer("libcni.ts", [
    "net/",
    "cni/",
    "node/",
    "plugins/registry.ts",
    "daemon/server/",
  ]),
];

/** Layers that parse configurations, and so may import zod. */
const ZOD_PLACES = [
  "cni/",
  "kube/",
  "plugins/*/",
  "ipam/*/",
  "daemon/",
  "node/",
  "plugins/multus/",
];

/** Files that may import Node modules, because Deno has no other way. */
const NODE_PLACES = [
  "kube/node_transport.ts",
  "daemon/server/garbage.ts",
  "cli/trace/span_recorder.ts",
];

/** The fault of an import, or `undefined`. */
type Fault = string | undefined;

function findLayerFault(path: string, specifier: string, lazy: boolean): Fault {
  const row = LAYERS.find(({ files }) => isIn(path, [files]));
  if (!row) return `"${path}" belongs to no layer`;
  const target = resolveImport(path, specifier) ?? specifier;
  const own = matchedPart(path, row.files) ?? row.files;
  if (isIn(target, [own, ...row.mayImport])) return undefined;
  if (!isIn(target, row.mayLoad)) {
    return `"${own}" may not import "${target}"`;
  }
  return lazy ? undefined : `"${own}" may import "${target}" only by import()`;
}

function findPackageFault(path: string, specifier: string): Fault {
  if (/^(npm|jsr|https?|data):/.test(specifier)) {
    return `Import "${specifier}" by a name in the import map`;
  }
  if (specifier.startsWith("node:")) {
    if (isIn(path, NODE_PLACES)) return undefined;
    return `Product code may not import "${specifier}": it slows every start`;
  }
  if (/^@std\/path(?!\/posix(\/|$))/.test(specifier)) {
    return `Import "@std/path/posix" rather than "${specifier}": it starts faster`;
  }
  if (!/^zod(\/|$)/.test(specifier)) return undefined;
  if (specifier !== "zod/mini") {
    return `Import "zod/mini" rather than "${specifier}": it starts faster`;
  }
  if (isIn(path, ZOD_PLACES)) return undefined;
  return `"${path}" may not import "zod/mini"`;
}

function findFault(path: string, specifier: string, lazy: boolean): Fault {
  return /^(\.{0,2}\/|file:)/.test(specifier)
    ? findLayerFault(path, specifier, lazy)
    : findPackageFault(path, specifier);
}

/** Reports imports against the layering and packages that cost start-up time. */
export const layers: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = productPath(context);
    if (path === undefined) return {};

    function check(source: Deno.lint.Node | null, lazy: boolean): void {
      if (source?.type !== "Literal") return;
      const message = findFault(path ?? "", String(source.value), lazy);
      if (message) context.report({ node: source, message });
    }

    return {
      ImportDeclaration: (node): void => check(node.source, false),
      ExportAllDeclaration: (node): void => check(node.source, false),
      ExportNamedDeclaration: (node): void => check(node.source, false),
      TSExternalModuleReference: (node): void => check(node.expression, false),
      TSImportType({ argument }): void {
        if (argument.type === "TSLiteralType") check(argument.literal, false);
      },
      ImportExpression(node): void {
        check(node.source, true);
        if (node.source.type === "Literal") return;
        const message = "import() needs a string literal: a bundle cannot " +
          "hold what is named at run time";
        context.report({ node, message });
      },
    };
  },
};
