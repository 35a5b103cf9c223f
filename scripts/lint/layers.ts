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

/**
 * The layering of ARCHITECTURE.md: files, then what they may import, and what only
 * lazily. The first row that matches a file counts.
 */
const TABLE = `
net/
ffi/
  net/
base/command_line/
  net/ ffi/ base/
base/service/
  ffi/ base/
base/
  net/ ffi/change_check.ts
  lazily ffi/socket/journal.ts ffi/file/regular_file.ts
cni/
  net/ ffi/change_check.ts ffi/own_netns.ts base/
metadata/
  net/ base/ cni/
libcni/
  net/ ffi/change_check.ts base/ cni/
node/
  net/ ffi/ base/ cni/ libcni/
kube/
  net/ ffi/change_check.ts base/
plugins/parts/evidence/
  net/ ffi/ base/ cni/ metadata/ libcni/ plugins/parts/owner/
plugins/parts/traits.ts
  cni/ metadata/ plugins/lists/traits.ts
plugins/parts/
  net/ ffi/ base/ cni/ metadata/
daemon/wire/
  net/ base/ cni/
  lazily ffi/file/regular_file.ts
daemon/caller/
  base/ cni/ daemon/wire/ ffi/socket/unix_stream.ts
daemon/
  net/ ffi/ base/ cni/ plugins/node_keys.ts plugins/parts/link/link_remover.ts
  plugins/parts/sandbox/second_add.ts
plugins/registry.ts
  base/ cni/ plugins/lists/loaders.ts
plugins/renamed.ts
  base/ cni/ plugins/registry.ts plugins/lists/loaders.ts
plugins/node_keys.ts
  base/ cni/ metadata/plugin_keys.ts plugins/lists/key_tables.ts
plugins/lists/key_tables.ts
  metadata/plugin_keys.ts
plugins/lists/traits.ts
  metadata/plugin_metadata.ts
plugins/lists/loaders.ts
  cni/
  lazily plugins/*/plugin.ts ipam/*/plugin.ts
plugins/lists/metadata.ts
  metadata/ plugins/*/metadata.ts ipam/*/metadata.ts
main.ts
  net/ ffi/ base/ cni/ daemon/caller/ask_daemon.ts plugins/registry.ts
  lazily plugins/multus/thick/client.ts plugins/multus/thick/shim.ts
  cli/multus/commands.ts plugins/noop/main.ts plugins/renamed.ts
  ipam/dhcp/command.ts cli/main.ts cli/plugins/plugin_help.ts
  cli/trace/start.ts cli/trace/start_spans.ts
# The directories of multus, from the model up to the operations.
plugins/multus/model/
  net/ base/ cni/ libcni/ kube/api_timeout.ts kube/pod_evidence.ts
plugins/multus/records/
  net/ base/ cni/ libcni/ plugins/multus/model/
plugins/multus/devices/
  net/ ffi/change_check.ts base/ cni/ kube/ plugins/multus/model/
plugins/multus/pod/
  base/ cni/ kube/ plugins/multus/model/
plugins/multus/select/
  net/ base/ cni/ libcni/ kube/ metadata/plugin_keys.ts plugins/node_keys.ts
  plugins/parts/address/ipam_ranges.ts plugins/parts/traits.ts
  plugins/multus/model/ plugins/multus/devices/ plugins/multus/pod/
plugins/multus/permit/
  net/ ffi/rtnl/ base/ cni/ libcni/ plugins/parts/traits.ts
  plugins/multus/model/ plugins/multus/select/
plugins/multus/attach/
  base/ cni/ libcni/ plugins/multus/model/ plugins/multus/devices/
plugins/multus/route/
  net/ ffi/ base/ cni/ libcni/ plugins/parts/ plugins/multus/model/
plugins/multus/report/
  base/ cni/ libcni/ kube/ plugins/multus/model/ plugins/multus/pod/
plugins/multus/
  net/ ffi/ base/ cni/ metadata/ libcni/ kube/ plugins/parts/ daemon/wire/
  daemon/server/ daemon/caller/ plugins/registry.ts
# Another name of remote.
plugins/contivk8s/
  metadata/ plugins/remote/
plugins/chain/
  net/ ffi/ base/ cni/ metadata/ libcni/ plugins/parts/
plugins/*/
  net/ ffi/ base/ cni/ metadata/ plugins/parts/
ipam/whereabouts/
  net/ base/ cni/ metadata/ kube/
ipam/dhcp/
  net/ ffi/ base/ cni/ metadata/ plugins/parts/
ipam/slaac/
  net/ ffi/ base/ cni/ metadata/ plugins/parts/
ipam/host_local/daemon.ts
  base/ ffi/file/directory_watch.ts ipam/host_local/
ipam/host_local/
  net/ ffi/change_check.ts base/ cni/ metadata/
  lazily plugins/parts/evidence/
ipam/*/
  net/ base/ cni/ metadata/
# What cni conform and tests of plugins share.
testing/conform/in_process_way.ts
  base/ cni/ libcni/ plugins/registry.ts testing/
testing/conform/
  net/ ffi/ base/ cni/ libcni/ testing/ip_json.ts
# What the commands of cni read of the node: no command.
cli/node/
  net/ ffi/ base/ cni/ metadata/ libcni/ ipam/*/inspect.ts
  plugins/*/inspect.ts plugins/lists/ plugins/parts/address/
  plugins/parts/link/host_end.ts plugins/parts/traits.ts plugins/registry.ts
  plugins/renamed.ts daemon/ cli/flags.ts
cli/
  testing/conform/ net/ ffi/ base/ cni/ metadata/ libcni/ kube/
  plugins/*/inspect.ts plugins/*/command.ts ipam/*/inspect.ts
  ipam/*/command.ts plugins/*/daemon.ts ipam/*/daemon.ts plugins/parts/
  plugins/lists/ plugins/registry.ts plugins/renamed.ts node/ daemon/
  deploy/daemon/
# The entry points: importing one must not load the others.
mod.ts
  net/ ffi/ base/ cni/ metadata/ libcni/ plugins/parts/
nftables.ts
  ffi/
traffic_control.ts
  ffi/
libcni.ts
  net/ base/ cni/ libcni/ node/ plugins/registry.ts daemon/serve_cni.ts
`;

export const LAYERS: readonly Layer[] = TABLE.trim().replaceAll(/^#.*\n/gm, "")
  .split(/\n(?=\S)/).map((row) => {
    const [files = "", ...lines] = row.split("\n");
    const [mayImport = [], mayLoad = []] = lines.join(" ").split(" lazily ")
      .map((names) => names.split(" ").filter(Boolean));
    return { files, mayImport, mayLoad };
  });

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
  "daemon/server/daemon.ts",
  "daemon/server/heap_collector.ts",
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
