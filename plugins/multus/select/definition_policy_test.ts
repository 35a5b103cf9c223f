import { assert, assertEquals, assertThrows } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import { loadDelegate } from "../model/delegate.ts";
import { NetworkError } from "../model/network_error.ts";
import {
  checkArguments,
  checkDefinition,
  checkSize,
  type DefinitionPolicy,
} from "./definition_policy.ts";

const DEFAULTS: DefinitionPolicy = {
  definitionTypes: ["*"],
  definitionKeys: [],
};

function check(document: object, policy: Partial<DefinitionPolicy> = {}): void {
  const text = JSON.stringify({ cniVersion: "1.0.0", name: "n", ...document });
  const delegate = loadDelegate(new TextEncoder().encode(text));
  checkDefinition(delegate, 'NetworkAttachmentDefinition "a/n"', {
    ...DEFAULTS,
    ...policy,
  });
}

/** Returns the message without its beginning. */
function problemOf(document: object): string {
  const { code, message, event } = assertThrows(
    () => check(document),
    NetworkError,
    'Refused NetworkAttachmentDefinition "a/n": ',
  );
  assertEquals([code, event], [7, { reason: "NetworkRefused", message }]);
  return message.slice(message.indexOf(": ") + 2);
}

const RUN = "which definitions are not allowed to run";

testRows<[string, object, string]>("checkDefinition() refuses plugins", [
  ["debug", { type: "debug" }, `"type" is "debug", ${RUN}`],
  ["chain", { type: "chain", plugins: [] }, `"type" is "chain", ${RUN}`],
  ["remote", { type: "remote" }, `"type" is "remote", ${RUN}`],
  ["its other name", { type: "contivk8s" }, `"type" is "contivk8s", ${RUN}`],
  ["our tool", { type: "cni" }, `"type" is "cni", ${RUN}`],
  ["noop", { type: "noop" }, `"type" is "noop", ${RUN}`],
  [
    "in ipam",
    { type: "bridge", ipam: { type: "debug" } },
    `"ipam.type" is "debug", ${RUN}`,
  ],
  [
    "in a list",
    { plugins: [{ type: "bridge" }, { type: "debug" }] },
    `"plugins[1].type" is "debug", ${RUN}`,
  ],
  [
    "in a delegate",
    { type: "flannel", delegate: { type: "debug" } },
    `"delegate.type" is "debug", ${RUN}`,
  ],
  [
    "in what another project's plugin runs",
    { type: "x", steps: [{ run: { Type: "debug" } }] },
    `"steps[0].run.Type" is "debug", ${RUN}`,
  ],
  [
    "by the second of two keys",
    { type: "bridge", TYPE: "debug" },
    `"TYPE" is "debug", ${RUN}`,
  ],
  [
    "by the first of two keys",
    { TYPE: "debug", type: "bridge" },
    `"TYPE" is "debug", ${RUN}`,
  ],
  [
    "multus in any key",
    { type: "bridge", x: { type: "multus-shim" } },
    '"x.type" is "multus-shim": multus would call itself',
  ],
], ([, document, expected]) => {
  const problem = problemOf(document);
  assert(problem.startsWith(expected), problem);
  const isMultus = expected.includes("itself");
  assertEquals(problem.includes('"definitionTypes"'), !isMultus);
}, ([title]) => title);

testRows<[string, object, string, string]>("checkDefinition() refuses keys", [
  [
    "a directory",
    { type: "bridge", ipam: { type: "host-local", dataDir: "/etc" } },
    '"ipam.dataDir" names a directory on the node',
    "host-local.dataDir",
  ],
  [
    "a file",
    { type: "bridge", ipam: { type: "host-local", resolvConf: "/root/x" } },
    '"ipam.resolvConf" names a file on the node',
    "host-local.resolvConf",
  ],
  [
    "a file inside another object",
    {
      type: "bridge",
      ipam: { type: "whereabouts", kubernetes: { kubeconfig: "/x" } },
    },
    '"ipam.kubernetes.kubeconfig" names a file on the node',
    "whereabouts.kubeconfig",
  ],
  [
    "a lock of another project's IPAM plugin",
    { type: "ptp", ipam: { type: "calico-ipam", ipam_lock_file: "/etc/x" } },
    '"ipam.ipam_lock_file" names a file on the node',
    "calico-ipam.ipam_lock_file",
  ],
  [
    "a socket",
    { plugins: [{ type: "ptp", daemonSocket: "/run/evil.sock" }] },
    '"plugins[0].daemonSocket" names a socket on the node',
    "ptp.daemonSocket",
  ],
  [
    "a program",
    { type: "portmap", conditionsV4: ['\ninclude "/etc/shadow"'] },
    '"conditionsV4" names input for a program on the node',
    "portmap.conditionsV4",
  ],
  ...([
    ["firewall", "iptablesAdminChainName", "KUBE-SERVICES"],
    ["firewall", "firewalldZone", "public"],
    ["portmap", "markMasqBit", 0],
    ["portmap", "externalSetMarkChain", "KUBE-MARK-DROP"],
  ] as const).map(([type, key, value]): [string, object, string, string] => [
    `${key} of the node's firewall`,
    { plugins: [{ type: "ptp" }, { type, [key]: value }] },
    `"plugins[1].${key}" names a chain, zone or mark of the node's firewall`,
    `${type}.${key}`,
  ]),
  [
    "an address of the node",
    { type: "macvlan", hostAccess: true, hostAddresses: ["192.0.2.1"] },
    '"hostAddresses" names an address of the node',
    "macvlan.hostAddresses",
  ],
  [
    "another case",
    { type: "bridge", ipam: { type: "host-local", DATADIR: "/etc" } },
    '"ipam.DATADIR" names a directory on the node',
    "host-local.dataDir",
  ],
  [
    "letters that Go folds",
    { type: "x", "\u212Aubeconfig": "/x" },
    '"\u212Aubeconfig" names a file on the node',
    "x.kubeconfig",
  ],
  [
    "keys of a plugin that is called by a plugin without them",
    { type: "x", binDir: "/run/evil" },
    '"binDir" names a directory on the node',
    "x.binDir",
  ],
  [
    "the directory of another plugin",
    { type: "flannel", delegate: { dataDir: "/etc" } },
    '"delegate.dataDir" names a directory on the node',
    "flannel.dataDir",
  ],
  [
    "a path from a runtime's place",
    { type: "x", runtimeConfig: { CNIDeviceInfoFile: "/etc/x" } },
    '"runtimeConfig.CNIDeviceInfoFile" names a file on the node',
    "x.CNIDeviceInfoFile",
  ],
  [
    "a relative path",
    { type: "tuning", dataDir: "x" },
    '"dataDir" names a directory on the node',
    "tuning.dataDir",
  ],
  ...([
    ["cilium-cni", "log-file", "cilium.log"],
    ["aws-cni", "pluginLogFile", "/var/log/x"],
    ["spiderpool", "ipam_unix_socket_path", "/x.sock"],
    ["istio-cni", "cni_agent_run_dir", "x"],
    ["istio-cni", "cni_event_address", "/var/run/istio-cni/x.sock"],
    ["calico", "etcd_endpoints", "https://192.0.2.1:2379"],
    ["kuryr-cni", "kuryr_conf", "/etc/kuryr/kuryr.conf"],
    ["userspace", "sharedDir", "/run/x"],
    ["x", "socketName", "x"],
    ["x", "server", "unix:/x"],
    ["x", "policies", ["a", "../../../etc"]],
  ] as const).map(([type, key, value]): [string, object, string, string] => [
    `${key} of another project's plugin`,
    { plugins: [{ type: "bridge" }, { type, more: [{ [key]: value }] }] },
    `"plugins[1].more[0].${key}" names a possible file or socket on the node`,
    `${type}.${key}`,
  ]),
  [
    "another type of value",
    { type: "tuning", dataDir: ["/run/cni/tuning"] },
    '"dataDir" names a directory on the node',
    "tuning.dataDir",
  ],
], ([, document, expected, key]) => {
  assertEquals(
    problemOf(document),
    `${expected}; to allow it, add "${key}" to "definitionKeys" in the ` +
      "node's multus configuration",
  );
  check(document, { definitionKeys: ["a.b", key] });
  check(document, {
    definitionKeys: [key.replace(/[^.]+$/, (k) => k.toUpperCase())],
  });
  assertThrows(() => check(document, { definitionKeys: ["other.dataDir"] }));
}, ([title]) => title);

testRows<[string, object]>(
  "checkDefinition() allows harmless keys",
  [
    ["keys without a value", {
      type: "bridge",
      ipam: { type: "host-local", dataDir: "", resolvConf: null },
    }],
    ["usual values", {
      type: "ptp",
      daemonSocket: "/run/cni/daemon.sock",
      ipam: {
        type: "host-local",
        dataDir: "/var/lib/cni/networks",
        resolvConf: "/etc/resolv.conf",
      },
    }],
    ["interfaces of the node", { type: "macvlan", master: "eth1" }],
    ["the firewall's defaults", {
      plugins: [
        { type: "ptp" },
        { type: "portmap", markMasqBit: 13 },
        { type: "portmap", externalSetMarkChain: "KUBE-MARK-MASQ" },
        {
          type: "firewall",
          iptablesAdminChainName: "CNI-ADMIN",
          firewalldZone: "trusted",
        },
      ],
    }],
    ["capabilities of such a name", {
      type: "x",
      capabilities: { CNIDeviceInfoFile: false },
    }],
    ["values that only look like names of files", {
      type: "x",
      seccompProfile: "x",
      multipath: true,
      node_size: "/24",
      address: "10.1.1.1/24",
      resource: "vendor.com/nic",
      mirrorPaths: [],
      sysctl: { "net.x.some_path": "1" },
    }],
    ["a type that is not a text", { type: "x", policy: { type: ["debug"] } }],
  ],
  ([, document]) => check(document),
  ([title]) => title,
);

Deno.test("checkDefinition() allows the plugins that the node's settings name", async (t) => {
  const bridge = { type: "bridge", ipam: { type: "host-local" } };
  const chain = { type: "chain", plugins: [{ type: "debug" }] };
  const rows: [string[], object, boolean][] = [
    [["*", "chain"], chain, false],
    [["*", "chain", "debug"], chain, true],
    [["*", "chain"], bridge, true],
    [["bridge"], bridge, false],
    [["bridge", "host-local"], bridge, true],
    [[], bridge, false],
    [["*", "multus"], { type: "x", y: { type: "multus" } }, false],
  ];
  await eachRow(t, rows, ([definitionTypes, document, isAllowed]) => {
    const run = (): void => check(document, { definitionTypes });
    if (isAllowed) run();
    else assertThrows(run, NetworkError);
  });
});

Deno.test("checkDefinition() keeps long names out of events", () => {
  const long = "x".repeat(1_000_000);
  const options = { definitionTypes: [] };
  const error = assertThrows(
    () => check({ type: "x", [long]: { type: long } }, options),
    NetworkError,
  );
  assert(error.event.message.length < 500);
});

testRows<[string, object, string | undefined]>(
  "checkSize() refuses sizes that overload a node",
  [
    ["64 plugins", { plugins: Array(64).fill({ type: "x" }) }, undefined],
    [
      "65 plugins",
      { plugins: Array(65).fill({ type: "x" }) },
      "it has 65 plugins; the limit is 64",
    ],
    ["64 KiB", { type: "x".repeat(65_525) }, undefined],
    [
      "a byte more",
      { type: "x".repeat(65_526) },
      "it has 65537 bytes; the limit is 65536",
    ],
  ],
  ([, document, expected]) => {
    const bytes = new TextEncoder().encode(JSON.stringify(document));
    if (expected === undefined) return checkSize(bytes, "it");
    const { code, message, event } = assertThrows(
      () => checkSize(bytes, "it"),
      NetworkError,
    );
    assertEquals([code, message], [7, `Refused it: ${expected}`]);
    assertEquals(event.reason, "NetworkRefused");
  },
  ([title]) => title,
);

Deno.test("checkArguments() refuses arguments that name files or links of the node", () => {
  const rows: [JsonObject, string][] = [
    [{ dataDir: "/etc" }, '"dataDir" names a directory on the node'],
    [{ a: [{ LOGFILE: "x" }] }, '"a[0].LOGFILE" names a file on the node'],
    [{ ipam: { type: "debug" } }, '"ipam.type" is "debug", which'],
    [{ x: "/etc/passwd" }, '"x" names a possible file or socket'],
  ];
  for (const [cniArgs, expected] of rows) {
    assertThrows(
      () => checkArguments(cniArgs, "a/n"),
      NetworkError,
      `Refused "cni-args" on network "a/n": ${expected}`,
    );
  }
  checkArguments({ ips: ["10.1.1.1/24"], labels: [{ key: "a/b" }] }, "a/n");
});

/**
 * Definitions in the forms that pages and tests of these projects have. None
 * may be refused.
 */
const IN_USE: Readonly<Record<string, object>> = {
  "multus: macvlan with host-local": {
    type: "macvlan",
    master: "eth0",
    mode: "bridge",
    ipam: {
      type: "host-local",
      subnet: "192.168.1.0/24",
      rangeStart: "192.168.1.200",
      rangeEnd: "192.168.1.216",
      routes: [{ dst: "0.0.0.0/0" }],
      gateway: "192.168.1.1",
    },
  },
  "multus: ipvlan with capabilities": {
    plugins: [
      {
        type: "macvlan",
        capabilities: { ips: true },
        master: "eth1",
        ipam: { type: "static", routes: [{ dst: "10.0.0.0/8" }] },
      },
      { type: "tuning", capabilities: { mac: true } },
    ],
  },
  "multus: passthru": { type: "passthru" },
  "multus: bridge, portmap and firewall": {
    plugins: [
      { type: "bridge", bridge: "mynet0", isGateway: true, ipMasq: true },
      { type: "portmap", capabilities: { portMappings: true }, snat: true },
      { type: "firewall", ingressPolicy: "same-bridge" },
      { type: "bandwidth", capabilities: { bandwidth: true } },
      { type: "sbr" },
    ],
  },
  "Go plugins: host-device by PCI address": {
    type: "host-device",
    pciBusID: "0000:3d:00.1",
    ipam: { type: "dhcp" },
  },
  "Go plugins: host-device by device": {
    type: "host-device",
    device: "ens4",
    kernelpath: "/sys/devices/pci0000:00/0000:00:1f.6",
  },
  "Go plugins: dhcp with options": {
    type: "macvlan",
    master: "eth0",
    ipam: {
      type: "dhcp",
      daemonSocketPath: "/run/cni/dhcp.sock",
      request: [{ skipDefault: false }],
      provide: [{ option: "12", fromArg: "K8S_POD_NAME" }],
    },
  },
  "Go plugins: vlan, vrf and tuning": {
    plugins: [
      { type: "vlan", master: "eth0", vlanId: 5, linkInContainer: false },
      { type: "vrf", vrfname: "blue", table: 100 },
      { type: "tuning", sysctl: { "net.core.somaxconn": "500" }, mtu: 1454 },
    ],
  },
  "SR-IOV": {
    type: "sriov",
    vlan: 1000,
    vlanQoS: 4,
    spoofchk: "on",
    trust: "off",
    link_state: "auto",
    min_tx_rate: 100,
    capabilities: { mac: true, ips: true, CNIDeviceInfoFile: true },
    logLevel: "info",
    ipam: { type: "host-local", subnet: "10.56.217.0/24" },
  },
  "SR-IOV: with a device and RDMA": {
    plugins: [
      { type: "sriov", deviceID: "0000:03:02.0", pciBusID: "0000:03:02.0" },
      { type: "rdma", args: { cni: { debug: true } } },
    ],
  },
  "InfiniBand SR-IOV": {
    type: "ib-sriov",
    pkey: "0x0001",
    link_state: "enable",
    ibKubernetesEnabled: true,
    rdmaIsolation: true,
    ipam: { type: "host-local", subnet: "10.56.217.0/24" },
  },
  "IPoIB": { type: "ipoib", master: "ib0", ipam: { type: "whereabouts" } },
  "Open vSwitch": {
    type: "ovs",
    bridge: "br1",
    vlan: 100,
    trunk: [{ id: 42 }, { minID: 1000, maxID: 1010 }],
    interface_type: "dpdk",
    socket_file: "unix:/var/run/openvswitch/db.sock",
  },
  "Open vSwitch: mirrors": {
    plugins: [
      { type: "ovs", bridge: "br1" },
      {
        type: "ovs-mirror-producer",
        bridge: "br1",
        mirrors: [{ name: "mirror-1", ingress: true, egress: true }],
      },
    ],
  },
  "whereabouts: with the kubeconfig that it installs": {
    type: "macvlan",
    master: "eth0",
    ipam: {
      type: "whereabouts",
      datastore: "kubernetes",
      kubernetes: {
        kubeconfig: "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
      },
      range: "192.168.2.225/28",
      exclude: ["192.168.2.229/30"],
      log_file: "/tmp/whereabouts.log",
      log_level: "debug",
      gateway: "192.168.2.225",
    },
  },
  "whereabouts: ranges, as its tests": {
    disableCheck: true,
    plugins: [{
      type: "macvlan",
      master: "eth0",
      mode: "bridge",
      ipam: {
        type: "whereabouts",
        leader_lease_duration: 1500,
        leader_renew_deadline: 1000,
        leader_retry_period: 500,
        range: "10.10.0.0/16",
        ipRanges: [{ range: "fd00::/64" }],
        log_level: "debug",
        log_file: "/tmp/wb",
        network_name: "blue",
        enable_overlapping_ranges: true,
        node_slice_size: "/22",
      },
    }],
  },
  "whereabouts: with its flat file": {
    type: "ipvlan",
    master: "eth0",
    ipam: {
      type: "whereabouts",
      configuration_path: "/etc/cni/net.d/whereabouts.d/whereabouts.conf",
      range: "10.0.0.0/24",
      log_file: "/var/log/whereabouts.log",
    },
  },
  "bond": {
    type: "bond",
    mode: "active-backup",
    failOverMac: 1,
    linksInContainer: true,
    miimon: "100",
    mtu: 1500,
    links: [{ name: "net1" }, { name: "net2" }],
    ipam: { type: "host-local", subnet: "10.56.217.0/24" },
  },
  "KubeVirt: bridge with VLAN": {
    plugins: [
      { type: "cnv-bridge", bridge: "br1", vlan: 100, macspoofchk: true },
      { type: "cnv-tuning" },
    ],
  },
  "KubeVirt: tap for masquerade and passt": {
    plugins: [
      { type: "tap", multiQueue: true, bridge: "k6t-net1" },
      { type: "kubevirt-passt-binding" },
    ],
  },
  "OVN-Kubernetes: a secondary network": {
    type: "ovn-k8s-cni-overlay",
    topology: "layer2",
    subnets: "10.100.200.0/24",
    netAttachDefName: "a/n",
    allowPersistentIPs: true,
    role: "primary",
  },
  "Kube-OVN": {
    type: "kube-ovn",
    server_socket: "/run/openvswitch/kube-ovn-daemon.sock",
    provider: "net1.default.ovn",
    ipam: {
      type: "kube-ovn",
      server_socket: "/run/openvswitch/kube-ovn-daemon.sock",
    },
  },
  "Spiderpool": {
    type: "macvlan",
    master: "ens192",
    ipam: { type: "spiderpool", default_ipv4_ippool: ["pool"] },
  },
  "Calico as a definition": {
    type: "calico",
    log_level: "info",
    datastore_type: "kubernetes",
    nodename: "node1",
    ipam: { type: "calico-ipam" },
    policy: { type: "k8s" },
  },
  "flannel as a definition": {
    plugins: [
      { type: "flannel", delegate: { hairpinMode: true } },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  },
  "Antrea": {
    type: "antrea",
    networkType: "vlan",
    ipam: { type: "antrea", ippools: ["pool"] },
  },
};

Deno.test("checkDefinition() refuses no definition in use", async (t) => {
  await eachRow(
    t,
    Object.entries(IN_USE),
    ([, document]) => check(document),
    ([title]) => title,
  );
});
