/**
 * Makes the tables of directories in ARCHITECTURE.md from the lint's layers.
 *
 * @module
 */

import { LAYERS } from "../lint/layers.ts";

/** What each row of the table holds. */
const HOLDS: Readonly<Record<string, string>> = {
  "main.ts": "the executable: finds out by which name it was called",
  "plugins/registry.ts": "finds a plugin of this project by its name",
  "plugins/renamed.ts": "finds the plugin behind an executable's other name",
  "plugins/node_keys.ts": "keys of configurations that name files of the node",
  "plugins/lists/loaders.ts": "generated: every plugin",
  "plugins/lists/metadata.ts": "generated: every plugin's metadata",
  "plugins/multus/main.ts": "the executable that contains only multus",
  "plugins/contivk8s/": "another name of the plugin remote",
  "plugins/chain/": "the plugin that runs a list of plugins",
  "mod.ts": "entry point: what a plugin needs",
  "libcni.ts": "entry point: the runtime's side",
  "nftables.ts": "entry point: nftables",
  "traffic_control.ts": "entry point: traffic control",
  "net/": "values: IP, CIDR and MAC addresses; codecs of bytes and DHCP",
  "ffi/": "the kernel: libc, errno, namespaces, sockets, netlink, nftables",
  "base/": "what any program needs: errors, JSON, files, locks, logs, time",
  "base/command_line/":
    "flags, help texts, tables and signals of command lines",
  "cni/": "the specification: calls, configurations, results, plugins",
  "libcni/": "the runtime's side: networks, their cache, operations",
  "node/": "`NodeNetwork`, a kubelet's view of the pods of a node",
  "kube/": "a client of the Kubernetes API",
  "daemon/wire/": "what callers and the node daemon agree on",
  "daemon/caller/": "handing a call over to the node daemon",
  "daemon/service/": "what daemons share: sockets, admission, readiness",
  "daemon/": "the node daemon, which runs calls of other processes",
  "plugins/parts/": "what several interface plugins share",
  "plugins/*/": "one plugin",
  "plugins/multus/": "multus: thin, thick, and its installation",
  "ipam/*/": "one IPAM plugin",
  "ipam/whereabouts/": "whereabouts, with its claims and its commands",
  "ipam/dhcp/": "dhcp, with its daemon: leases, and the DHCP client",
  "testing/conform/": "demands of the specification on any plugin, as rows",
  "cli/": "the tool `cni`: a directory for each command",
};

/** Between these lines of ARCHITECTURE.md is the table. */
const BEGIN = "<!-- layers: made by `deno task schemas` -->\n";
const END = "<!-- end of layers -->\n";

/** Returns the table, not formatted. */
export function formatLayerTable(): string {
  const rows = LAYERS.filter(({ files }) => HOLDS[files] !== undefined);
  const code = (paths: readonly string[]): string =>
    paths.map((path) => `\`${path.replace(/\/$/, "")}\``).join(", ") || "-";
  return [
    "| files | hold | may import | and only lazily |",
    "| --- | --- | --- | --- |",
    ...rows.map(({ files, mayImport, mayLoad }) =>
      `| \`${files}\` | ${HOLDS[files]} | ${code(mayImport)} | ${
        code(mayLoad)
      } |`
    ),
  ].join("\n") + "\n";
}

/**
 * Puts the table into the text of ARCHITECTURE.md.
 *
 * @throws {Error} If the text has no place for it
 */
export function withLayerTable(text: string): string {
  const [before, rest] = text.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) {
    throw new Error("Cannot find the place of the table in ARCHITECTURE.md");
  }
  return `${before}${BEGIN}\n${formatLayerTable()}\n${END}${after}`;
}
