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
export const LAYERS: readonly Layer[] = [
  layer("net/", []),
  layer("ffi/", ["net/"]),
  layer("base/command_line/", ["net/", "ffi/", "base/"]),
  layer("base/service/", ["ffi/", "base/"]),
  layer("base/", ["net/"], [
    "ffi/socket/journal.ts",
    "ffi/file/regular_file.ts",
  ]),
  layer("cni/", ["net/", "base/"]),
  layer("metadata/", ["net/", "base/", "cni/"]),
  layer("libcni/", ["net/", "base/", "cni/"]),
  layer("node/", ["net/", "ffi/", "base/", "cni/", "libcni/"]),
  layer("kube/", ["net/", "base/", "cni/"]),
  layer("plugins/parts/evidence/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "libcni/",
    "plugins/parts/owner/",
  ]),
  layer("plugins/parts/", ["net/", "ffi/", "base/", "cni/", "metadata/"]),
  layer("daemon/wire/", ["net/", "base/", "cni/"], [
    "ffi/file/regular_file.ts",
  ]),
  layer("daemon/caller/", [
    "base/",
    "cni/",
    "daemon/wire/",
    "ffi/socket/unix_stream.ts",
  ]),
  layer("daemon/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "plugins/node_keys.ts",
    "plugins/parts/link/link_remover.ts",
  ]),
  layer("plugins/registry.ts", ["base/", "cni/", "plugins/lists/loaders.ts"]),
  layer("plugins/renamed.ts", [
    "base/",
    "cni/",
    "plugins/registry.ts",
    "plugins/lists/loaders.ts",
  ]),
  layer("plugins/node_keys.ts", [
    "base/",
    "cni/",
    "metadata/plugin_keys.ts",
    "plugins/lists/key_tables.ts",
  ]),
  layer("plugins/lists/key_tables.ts", ["metadata/plugin_keys.ts"]),
  layer("plugins/lists/loaders.ts", ["cni/"], [
    "plugins/*/plugin.ts",
    "ipam/*/plugin.ts",
  ]),
  layer("plugins/lists/metadata.ts", [
    "metadata/",
    "plugins/*/metadata.ts",
    "ipam/*/metadata.ts",
  ]),
  layer("main.ts", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "daemon/caller/ask_daemon.ts",
    "plugins/registry.ts",
  ], [
    "plugins/multus/thick/client.ts",
    "plugins/multus/thick/shim.ts",
    "cli/multus/commands.ts",
    "plugins/noop/main.ts",
    "plugins/renamed.ts",
    "ipam/dhcp/command.ts",
    "cli/main.ts",
    "cli/plugins/plugin_help.ts",
    "cli/trace/start.ts",
    "cli/trace/start_spans.ts",
  ]),
  layer("plugins/multus/main.ts", [
    "base/process/stdio.ts",
    "daemon/caller/ask_daemon.ts",
    "plugins/multus/plugin.ts",
  ], ["plugins/multus/thick/client.ts", "cli/multus/commands.ts"]),
  // The rooms of multus, from the ground to the operations at the top.
  layer("plugins/multus/model/", [
    "net/",
    "base/",
    "cni/",
    "libcni/",
    "kube/api_timeout.ts",
    "kube/pod_evidence.ts",
  ]),
  layer("plugins/multus/memory/", [
    "net/",
    "base/",
    "cni/",
    "libcni/",
    "plugins/multus/model/",
  ]),
  layer("plugins/multus/devices/", [
    "net/",
    "base/",
    "cni/",
    "kube/",
    "plugins/multus/model/",
  ]),
  layer("plugins/multus/pod/", [
    "base/",
    "cni/",
    "kube/",
    "plugins/multus/model/",
  ]),
  layer("plugins/multus/select/", [
    "net/",
    "base/",
    "cni/",
    "libcni/",
    "kube/",
    "metadata/plugin_keys.ts",
    "plugins/node_keys.ts",
    "plugins/multus/model/",
    "plugins/multus/devices/",
    "plugins/multus/pod/",
  ]),
  layer("plugins/multus/attach/", [
    "base/",
    "cni/",
    "libcni/",
    "ffi/rtnl/",
    "plugins/multus/model/",
    "plugins/multus/devices/",
  ]),
  layer("plugins/multus/route/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "libcni/",
    "plugins/parts/",
    "plugins/multus/model/",
  ]),
  layer("plugins/multus/report/", [
    "base/",
    "cni/",
    "libcni/",
    "kube/",
    "plugins/multus/model/",
    "plugins/multus/pod/",
  ]),
  layer("plugins/multus/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "libcni/",
    "kube/",
    "plugins/parts/",
    "daemon/wire/",
    "daemon/server/",
    "daemon/caller/",
    "plugins/registry.ts",
  ]),
  // Another name of remote.
  layer("plugins/contivk8s/", [
    "metadata/",
    "plugins/remote/",
  ]),
  layer("plugins/chain/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "libcni/",
    "plugins/parts/",
  ]),
  layer("plugins/*/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "plugins/parts/",
  ]),
  layer("ipam/whereabouts/", ["net/", "base/", "cni/", "metadata/", "kube/"]),
  layer("ipam/dhcp/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "plugins/parts/link/",
  ]),
  layer("ipam/host_local/daemon.ts", [
    "base/",
    "ffi/file/directory_watch.ts",
    "ipam/host_local/",
  ]),
  layer("ipam/host_local/", ["net/", "base/", "cni/", "metadata/"], [
    "plugins/parts/evidence/",
  ]),
  layer("ipam/*/", ["net/", "base/", "cni/", "metadata/"]),
  // What `cni conform` and tests of plugins share.
  layer("testing/conform/in_process_way.ts", [
    "base/",
    "cni/",
    "libcni/",
    "plugins/registry.ts",
    "testing/",
  ]),
  layer("testing/conform/", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "libcni/",
    "testing/ip_json.ts",
  ]),
  layer("cli/", [
    "testing/conform/",
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "libcni/",
    "kube/",
    "plugins/*/inspect.ts",
    "plugins/*/command.ts",
    "ipam/*/inspect.ts",
    "ipam/*/command.ts",
    "plugins/*/daemon.ts",
    "ipam/*/daemon.ts",
    "plugins/parts/",
    "plugins/lists/",
    "plugins/registry.ts",
    "plugins/renamed.ts",
    "node/",
    "daemon/",
    "deploy/daemon/",
  ]),
  // The entry points: importing one must not load the others.
  layer("mod.ts", [
    "net/",
    "ffi/",
    "base/",
    "cni/",
    "metadata/",
    "libcni/",
    "plugins/parts/",
  ]),
  layer("nftables.ts", ["ffi/"]),
  layer("traffic_control.ts", ["ffi/"]),
  layer("libcni.ts", [
    "net/",
    "base/",
    "cni/",
    "libcni/",
    "node/",
    "plugins/registry.ts",
    "daemon/server/serve_cni.ts",
  ]),
];

/** Layers that parse configurations, and so may import zod. */
const ZOD_PLACES = [
  "base/json/",
  "cni/",
  "metadata/",
  "libcni/",
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
