/** Every key of every plugin's schema is known to name something of the node, or not to. */

import { assertEquals } from "@std/assert";
import { makeSchemas } from "../cli/explain/make.ts";
import { foldKey, isObject } from "../base/json/json.ts";
import { PLUGIN_NODE_KEYS } from "../plugins/lists/key_tables.ts";
import { findNodeKey, isUsual, NODE_KEYS } from "../plugins/node_keys.ts";
import { pluginNames } from "../plugins/registry.ts";
import {
  formatKeyTables,
  formatTraits,
} from "../scripts/schemas/key_tables.ts";

const { definitions } = await makeSchemas();

/**
 * Keys of the schemas with values that name nothing of the node's files,
 * programs, sockets, interfaces, addresses and firewall: numbers, flags, the
 * container's addresses, and names of Kubernetes objects and of what is in the
 * container.
 */
const HARMLESS = new Set(
  `address addresses addressGeneration addSourceHints advmss allmulti
  allowPersistentIPs apiTimeoutSeconds args
  auxiliaryCNIChainName
  backend bandwidth bcqueuelen capabilities cni cniVersion definitionKeys definitionTypes
  compress conflictCheck containerPort datastore defaultNetworksAreOptional defaultRoute delegate delegates
  delPolicy
  disableContainerInterface dns domain dst egressBurst egressRate
  enable_overlapping_ranges enabledad etcd_password etcd_username exclude
  requireDevices podArgs podRequests podRoutes stay stayTime stayWhenScaled
  exclude_gateway family forceAddress fromArg
  gateway gateways globalNamespaces group gw hairpinMode hookTimeoutSeconds
  hostAccess
  hostIP hostPort id infinibandGUID ingressBurst ingressPolicy ingressRate
  interfaces ipam ipMasq ipMasqBackend ipMasqFamilies ipRanges ips
  isDefaultGateway isGateway kubernetes leader_lease_duration
  leader_renew_deadline leader_retry_period linkInContainer log_level logLevel
  logOptions logToStderr mac macspoofchk masqAll maxAge maxBackups
  maxID maxSize minID mode mtu multiQueue multusNamespace name nameservers
  namespaceIsolation netnsMode network_name node_slice_size option options outboundAddresses owner
  plugins pollMillis portIsolation portMappings preserveDefaultVlan prevResult
  priority promisc promiscMode protocol provide range range_end range_start
  rangeEnd ranges rangeStart readyTimeoutSeconds reconciler_cron_expression
  request retryDeleteOnError routes runtimeConfig scope search selinuxContext
  shapedSubnets skipDefault sleep_for_race snat subnet sysctl systemNamespaces
  table temporaryAddresses timeoutSeconds trustedNamespaces txQLen type unshapedSubnets useInterfaceNetwork value vlan vlanId vlanTrunk
  vrfname`.split(/\s+/),
);

/** Lists the keys of a JSON Schema, at any depth. */
function listKeys(schema: unknown): string[] {
  if (Array.isArray(schema)) return schema.flatMap(listKeys);
  if (!isObject(schema)) return [];
  const { properties } = schema;
  return [
    ...isObject(properties) ? Object.keys(properties) : [],
    ...Object.values(schema).flatMap(listKeys),
  ];
}

function readKeys(type: string): Set<string> {
  return new Set(listKeys(definitions[type]));
}

Deno.test("each key of each schema is in the table of node keys, or in HARMLESS", () => {
  const keys = new Set(pluginNames.flatMap((type) => [...readKeys(type)]));
  const unknown = [...keys].filter((key) =>
    HARMLESS.has(key) === (findNodeKey(foldKey(key)) !== undefined)
  );
  assertEquals(
    unknown,
    [],
    "if values name something of the node, say so " +
      "in keys.ts (names) and run deno task schemas, else in HARMLESS here",
  );
  const gone = [...HARMLESS].filter((key) => !keys.has(key));
  assertEquals(gone, [], "HARMLESS here has keys that no schema has");
});

Deno.test("the table of node keys lists each key once", () => {
  const folded = NODE_KEYS.map(({ key }) => foldKey(key));
  assertEquals(folded.length, new Set(folded).size);
});

Deno.test("the tables of keys equal the output of deno task schemas", async () => {
  const file = new URL("../plugins/lists/key_tables.ts", import.meta.url);
  assertEquals(await Deno.readTextFile(file), await formatKeyTables());
  const all = pluginNames.flatMap((type) => [...readKeys(type)]);
  assertEquals(
    PLUGIN_NODE_KEYS.filter(([key]) => !all.includes(key)),
    [],
  );
});

Deno.test("the traits of plugins equal the output of deno task schemas", async () => {
  const file = new URL("../plugins/lists/traits.ts", import.meta.url);
  assertEquals(await Deno.readTextFile(file), formatTraits());
});

Deno.test("docs/multus-networks.md lists the keys that definitions may not set", () => {
  const page = new URL("../docs/multus-networks.md", import.meta.url);
  const [, rules = ""] = Deno.readTextFileSync(page)
    .split("## What a definition may do");
  const missing = NODE_KEYS.filter(({ key, names }) =>
    names !== "interface" && !rules.includes(`\`${key}\``)
  );
  assertEquals(missing, []);
});

Deno.test("foldKey() folds the same characters as Go", () => {
  for (const key of ["binDir", "BINDIR", "binDIR"]) {
    assertEquals(foldKey(key), "bindir");
  }
  assertEquals(foldKey("\u212Aubeconfig"), "kubeconfig");
  assertEquals(foldKey("\u017Focket"), "socket");
});

Deno.test("isUsual() accepts harmless values", () => {
  const isUsualFor = (key: string, value: unknown): boolean => {
    const row = findNodeKey(foldKey(key));
    return row !== undefined && isUsual(row, value);
  };
  const rows: [key: string, value: unknown, expected: boolean][] = [
    ["dataDir", "/var/lib/cni/networks", true],
    ["dataDir", "/var/lib/cni/networks/..", false],
    ["dataDir", "/etc", false],
    ["dataDir", ["/var/lib/cni/networks"], false],
    ["log_file", "/tmp/wb", true],
    ["log_file", "/var/log/whereabouts-public.log", true],
    ["log_file", "/tmp/", false],
    ["log_file", "/tmp/a/b", false],
    ["log_file", "/tmp/../etc/cron.d/a", false],
    ["log_file", "/var/log/auth.log", false],
    ["binDir", "/opt/cni/bin", false],
    ["iptablesAdminChainName", "CNI-ADMIN", true],
    ["iptablesAdminChainName", "KUBE-SERVICES", false],
    ["firewalldZone", "trusted", true],
    ["markMasqBit", 13, true],
    ["markMasqBit", 0, false],
    ["externalSetMarkChain", "KUBE-MARK-MASQ", true],
    ["externalSetMarkChain", "KUBE-MARK-DROP", false],
    ["hostAddresses", ["192.0.2.1"], false],
  ];
  for (const row of rows) {
    assertEquals([row[0], row[1], isUsualFor(row[0], row[1])], row);
  }
});
