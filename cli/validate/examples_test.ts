import { assertEquals } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

const DEFAULT = { dst: "0.0.0.0/0" };
const HOST_LOCAL = { type: "host-local", subnet: "10.10.0.0/16" };
const PORTMAP = { type: "portmap", capabilities: { portMappings: true } };

/** Networks that runtimes and other projects install, and examples of the Go plugins' documentation. */
const lists: Readonly<Record<string, object>> = {
  "kube-router, whose plugin has a name of its own": {
    cniVersion: "0.3.0",
    name: "mynet",
    plugins: [{
      name: "kubernetes",
      type: "bridge",
      bridge: "kube-bridge",
      isDefaultGateway: true,
      hairpinMode: true,
      ipam: HOST_LOCAL,
    }, PORTMAP],
  },
  "containerd": {
    cniVersion: "1.0.0",
    name: "containerd-net",
    plugins: [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        promiscMode: true,
        ipam: {
          type: "host-local",
          ranges: [[{ subnet: "10.88.0.0/16" }], [{
            subnet: "2001:4860:4860::/64",
          }]],
          routes: [DEFAULT, { dst: "::/0" }],
        },
      },
      PORTMAP,
    ],
  },
  "Calico with host-local": {
    cniVersion: "0.3.1",
    name: "k8s-pod-network",
    plugins: [
      {
        type: "calico",
        ipam: { type: "host-local", ranges: [[{ subnet: "usePodCidr" }]] },
      },
      PORTMAP,
    ],
  },
  "CRI-O": {
    cniVersion: "1.0.0",
    name: "crio",
    plugins: [{
      type: "bridge",
      bridge: "cni0",
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: {
        type: "host-local",
        routes: [DEFAULT, { dst: "::/0" }],
        ranges: [[{ subnet: "10.85.0.0/16" }], [{ subnet: "1100:200::/24" }]],
      },
    }],
  },
  "CRI-O's loopback": {
    cniVersion: "1.0.0",
    name: "loopback",
    plugins: [{ type: "loopback" }],
  },
  "podman": {
    args: { podman_labels: { a: "b" }, podman_options: { isolate: "true" } },
    cniVersion: "0.4.0",
    name: "podman",
    plugins: [
      {
        type: "bridge",
        bridge: "cni-podman0",
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: {
          type: "host-local",
          routes: [DEFAULT],
          ranges: [[{ subnet: "10.88.0.0/16", gateway: "10.88.0.1" }]],
        },
        capabilities: { ips: true },
      },
      PORTMAP,
      { type: "firewall", backend: "" },
      { type: "tuning", capabilities: { mac: true } },
      {
        type: "dnsname",
        domainName: "dns.podman",
        capabilities: { aliases: true },
      },
    ],
  },
  "podman's macvlan": {
    cniVersion: "0.4.0",
    name: "lan",
    plugins: [{
      type: "macvlan",
      master: "eth0",
      ipam: { type: "dhcp" },
      capabilities: { ips: true },
    }],
  },
  "nerdctl": {
    cniVersion: "1.0.0",
    name: "bridge",
    nerdctlID:
      "17f29b073143d8cd97b5bbe492bdeffec1c5fee55cc1fe2112c8b9335f8b6121",
    nerdctlLabels: { "nerdctl/default-network": "true" },
    plugins: [
      {
        type: "bridge",
        bridge: "nerdctl0",
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: {
          ranges: [[{ gateway: "10.4.0.1", subnet: "10.4.0.0/24" }]],
          routes: [DEFAULT],
          type: "host-local",
        },
      },
      PORTMAP,
      { type: "firewall", ingressPolicy: "same-bridge" },
      { type: "tuning", capabilities: { mac: true } },
    ],
  },
  "kind": {
    cniVersion: "0.3.1",
    name: "kindnet",
    plugins: [
      {
        type: "ptp",
        ipMasq: false,
        ipam: {
          type: "host-local",
          dataDir: "/run/cni-ipam-state",
          routes: [DEFAULT],
          ranges: [[{ subnet: "10.244.0.0/24" }]],
        },
        mtu: 1500,
      },
      PORTMAP,
    ],
  },
  "flannel": {
    name: "cbr0",
    cniVersion: "0.3.1",
    plugins: [
      {
        type: "flannel",
        delegate: { hairpinMode: true, isDefaultGateway: true },
      },
      PORTMAP,
    ],
  },
  "k3s": {
    name: "cbr0",
    cniVersion: "1.0.0",
    plugins: [
      {
        type: "flannel",
        delegate: {
          hairpinMode: true,
          forceAddress: true,
          isDefaultGateway: true,
        },
      },
      PORTMAP,
      { type: "bandwidth", capabilities: { bandwidth: true } },
    ],
  },
  "calico": {
    name: "k8s-pod-network",
    cniVersion: "0.3.1",
    plugins: [
      {
        type: "calico",
        datastore_type: "kubernetes",
        mtu: 0,
        nodename_file_optional: false,
        log_level: "Info",
        log_file_path: "/var/log/calico/cni/cni.log",
        ipam: {
          type: "calico-ipam",
          assign_ipv4: "true",
          assign_ipv6: "false",
        },
        container_settings: { allow_ip_forwarding: false },
        policy: { type: "k8s" },
        kubernetes: {
          k8s_api_root: "https://10.96.0.1:443",
          kubeconfig: "/etc/cni/net.d/calico-kubeconfig",
        },
      },
      { type: "bandwidth", capabilities: { bandwidth: true } },
      { type: "portmap", snat: true, capabilities: { portMappings: true } },
    ],
  },
  "cilium": {
    cniVersion: "0.3.1",
    name: "cilium",
    plugins: [{
      type: "cilium-cni",
      "enable-debug": false,
      "log-file": "/var/run/cilium/cilium-cni.log",
    }],
  },
  "cilium, chained": {
    name: "generic-veth",
    cniVersion: "0.3.1",
    plugins: [
      {
        type: "ptp",
        ipMasq: true,
        mtu: 1450,
        ipam: { type: "host-local", subnet: "10.10.0.0/24" },
      },
      { ...PORTMAP, snat: true },
      { type: "cilium-cni", "chaining-mode": "generic-veth" },
    ],
  },
  "istio, appended": {
    cniVersion: "0.3.1",
    name: "k8s-pod-network",
    plugins: [
      { type: "ptp", ipam: HOST_LOCAL },
      {
        type: "istio-cni",
        log_level: "info",
        kubernetes: { cni_bin_dir: "/opt/cni/bin", exclude_namespaces: ["a"] },
      },
    ],
  },
  "GKE": {
    name: "k8s-pod-network",
    cniVersion: "0.3.1",
    plugins: [
      {
        type: "ptp",
        mtu: 1460,
        ipam: {
          type: "host-local",
          subnet: "10.8.0.0/24",
          routes: [DEFAULT],
        },
      },
      PORTMAP,
    ],
  },
  "multus": {
    cniVersion: "0.3.1",
    name: "multus-cni-network",
    plugins: [{
      type: "multus",
      capabilities: { portMappings: true, bandwidth: true },
      logToStderr: true,
      logLevel: "debug",
      kubeconfig: "/etc/cni/net.d/multus.d/multus.kubeconfig",
      namespaceIsolation: true,
      delegates: [{
        cniVersion: "0.3.1",
        name: "weave1",
        plugins: [{ type: "flannel", delegate: { isDefaultGateway: true } }],
      }],
    }],
  },
  "bridge": {
    cniVersion: "0.3.1",
    name: "mynet",
    plugins: [{
      type: "bridge",
      bridge: "mynet0",
      isDefaultGateway: true,
      forceAddress: false,
      ipMasq: true,
      hairpinMode: true,
      ipam: HOST_LOCAL,
    }],
  },
  "bridge of layer 2": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{ type: "bridge", bridge: "mynet0", ipam: {} }],
  },
  "bridge with a trunk": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{
      type: "bridge",
      bridge: "mynet0",
      vlanTrunk: [{ id: 101 }, { minID: 200, maxID: 299 }],
      macspoofchk: true,
      portIsolation: true,
      ipam: {},
    }],
  },
  "ipvlan": {
    cniVersion: "0.3.1",
    name: "mynet",
    plugins: [{
      type: "ipvlan",
      master: "eth0",
      mode: "l3",
      linkInContainer: false,
      ipam: HOST_LOCAL,
    }],
  },
  "dummy": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{ type: "dummy", ipam: HOST_LOCAL }],
  },
  "vlan": {
    cniVersion: "0.3.1",
    name: "mynet",
    plugins: [{
      type: "vlan",
      master: "eth0",
      mtu: 1500,
      vlanId: 5,
      linkInContainer: false,
      ipam: HOST_LOCAL,
      dns: { nameservers: ["10.1.1.1", "8.8.8.8"] },
    }],
  },
  "host-device with dhcp": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{
      type: "host-device",
      device: "enp0s1",
      ipam: { type: "dhcp" },
    }],
  },
  "tap": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [
      {
        type: "tap",
        multiQueue: true,
        mtu: 1500,
        owner: 0,
        group: 0,
        selinuxContext: "system_u:system_r:container_t:s0",
        ipam: HOST_LOCAL,
      },
      { type: "tuning", sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" } },
    ],
  },
  "dhcp with options": {
    cniVersion: "0.3.1",
    name: "lan",
    plugins: [{
      type: "macvlan",
      master: "eth0",
      mode: "bridge",
      ipam: {
        type: "dhcp",
        daemonSocketPath: "/run/cni/dhcp.sock",
        request: [{ skipDefault: false }, { option: "12" }],
        provide: [{ option: "host-name", fromArg: "K8S_POD_NAME" }],
      },
    }],
  },
  "host-local with all keys": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{
      type: "ptp",
      ipam: {
        type: "host-local",
        ranges: [
          [
            {
              subnet: "10.10.0.0/16",
              rangeStart: "10.10.1.20",
              rangeEnd: "10.10.3.50",
              gateway: "10.10.0.254",
            },
            { subnet: "172.16.5.0/24" },
          ],
          [{
            subnet: "3ffe:ffff:0:01ff::/64",
            rangeStart: "3ffe:ffff:0:01ff::0010",
            rangeEnd: "3ffe:ffff:0:01ff::0020",
          }],
        ],
        routes: [
          DEFAULT,
          { dst: "192.168.0.0/16", gw: "10.10.5.1" },
        ],
        dataDir: "/run/my-orchestrator/container-ipam-state",
      },
    }],
  },
  "host-local with the runtime's ranges": {
    cniVersion: "0.3.1",
    name: "mynet",
    plugins: [{
      type: "ptp",
      capabilities: { ipRanges: true, ips: true },
      ipam: { type: "host-local" },
    }],
  },
  "static": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{
      type: "ipvlan",
      master: "eth0",
      ipam: {
        type: "static",
        addresses: [
          { address: "10.10.0.1/24", gateway: "10.10.0.254" },
          { address: "3ffe:ffff:0:01ff::1/64", gateway: "3ffe:ffff:0:01ff::2" },
        ],
        routes: [DEFAULT, { dst: "192.168.0.0/16", gw: "10.10.0.253" }],
        dns: {
          nameservers: ["8.8.8.8"],
          domain: "example.com",
          search: ["example.com"],
        },
      },
    }],
  },
  "static with the runtime's addresses": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{
      type: "macvlan",
      capabilities: { ips: true },
      master: "eth0",
      ipam: { type: "static" },
    }],
  },
  "bandwidth": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [
      { type: "ptp", ipMasq: true, mtu: 512, ipam: HOST_LOCAL },
      {
        type: "bandwidth",
        ingressRate: 123000,
        ingressBurst: 456000,
        egressRate: 123000,
        egressBurst: 456000,
      },
    ],
  },
  "sbr, vrf and firewall": {
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [
      { type: "macvlan", master: "eth0", ipam: HOST_LOCAL },
      { type: "sbr" },
      { type: "vrf", vrfname: "blue" },
      { type: "firewall", backend: "iptables", ingressPolicy: "same-bridge" },
    ],
  },
  "whereabouts": {
    cniVersion: "0.3.0",
    name: "whereaboutsexample",
    plugins: [{
      type: "macvlan",
      master: "eth0",
      mode: "bridge",
      ipam: {
        type: "whereabouts",
        range: "192.168.2.225/28",
        exclude: ["192.168.2.229/30", "192.168.2.236/32"],
      },
    }],
  },
  "$schema, comments and other programs' keys": {
    $schema: "https://example.com/conflist.json",
    cniVersion: "1.0.0",
    name: "mynet",
    plugins: [{
      $schema: "./ptp.json",
      type: "ptp",
      _comment: "why",
      "example.com/owner": "team",
      ipam: HOST_LOCAL,
    }],
  },
  "AWS, with names of plugins": {
    cniVersion: "1.0.0",
    name: "aws-cni",
    disableCheck: true,
    plugins: [
      { name: "aws-cni", type: "aws-cni", mtu: "9001" },
      {
        name: "egress-cni",
        type: "egress-cni",
        mtu: "9001",
        enabled: "false",
        ipam: {
          type: "host-local",
          ranges: [[{ subnet: "fd00::ac:00/118" }]],
          routes: [{ dst: "::/0" }],
          dataDir: "/run/cni/v4pd/egress-v6-ipam",
        },
      },
      { ...PORTMAP, snat: true },
    ],
  },
  "thick multus": {
    cniVersion: "0.3.1",
    name: "multus-cni-network",
    plugins: [{
      type: "multus-shim",
      socketDir: "/host/run/multus/",
      logLevel: "verbose",
    }],
  },
};

/** NetworkAttachmentDefinitions and lists, as the documents of these projects have them. */
const definitions: Readonly<Record<string, string>> = {
  "OpenShift's network operator": `apiVersion: operator.openshift.io/v1
kind: Network
metadata:
  name: cluster
spec:
  additionalNetworks:
  - name: macvlan-net
    namespace: project2
    type: Raw
    rawCNIConfig: |-
      {
        "cniVersion": "0.3.1",
        "name": "macvlan-net",
        "type": "macvlan",
        "master": "eth1",
        "linkInContainer": false,
        "mode": "bridge",
        "ipam": {
          "type": "static",
          "addresses": [{ "address": "191.168.1.23/24" }]
        }
      }
`,
  "multus' quick start": `apiVersion: "k8s.cni.cncf.io/v1"
kind: NetworkAttachmentDefinition
metadata:
  name: macvlan-conf
spec:
  config: '{
      "cniVersion": "0.3.0",
      "type": "macvlan",
      "master": "eth0",
      "mode": "bridge",
      "ipam": {
        "type": "host-local",
        "subnet": "192.168.1.0/24",
        "rangeStart": "192.168.1.200",
        "rangeEnd": "192.168.1.216",
        "routes": [
          { "dst": "0.0.0.0/0" }
        ],
        "gateway": "192.168.1.1"
      }
    }'
`,
  "multus, a definition of a file on the node": define("macvlan-file"),
  "SR-IOV": define(
    "sriov-net1",
    `{
      "type": "sriov",
      "cniVersion": "0.3.1",
      "name": "sriov-network",
      "vlan": 1000,
      "spoofchk": "off",
      "ipam": {
        "type": "host-local",
        "subnet": "10.56.217.0/24",
        "routes": [{ "dst": "0.0.0.0/0" }],
        "gateway": "10.56.217.1"
      }
    }`,
    "k8s.v1.cni.cncf.io/resourceName: intel.com/intel_sriov_netdevice",
  ),
  "SR-IOV without addresses": define(
    "sriov-dpdk",
    '{ "cniVersion": "0.3.1", "type": "sriov", "name": "sriov-dpdk", "vlanQoS": 2, "link_state": "enable" }',
    "k8s.v1.cni.cncf.io/resourceName: intel.com/intel_sriov_dpdk",
  ),
  "a device of a plugin for devices": define(
    "dev",
    '{ "cniVersion": "0.3.1", "type": "host-device", "ipam": { "type": "dhcp" } }',
    "k8s.v1.cni.cncf.io/resourceName: intel.com/nic",
  ),
  "Open vSwitch": define(
    "ovs-conf",
    '{ "cniVersion": "0.4.0", "type": "ovs", "bridge": "br1", "vlan": 100 }',
  ),
  "Open vSwitch with a trunk": define(
    "ovs-trunk",
    '{ "cniVersion": "0.4.0", "type": "ovs", "bridge": "mynet0", "trunk": [{ "id": 42 }, { "minID": 1000, "maxID": 1010 }] }',
    "k8s.v1.cni.cncf.io/resourceName: ovs-cni.network.kubevirt.io/br1",
  ),
  "KubeVirt's bridge": define(
    "red",
    `{
      "cniVersion": "0.3.1",
      "name": "red",
      "plugins": [
        {
          "type": "cnv-bridge",
          "bridge": "br1",
          "macspoofchk": true,
          "vlan": 100,
          "ipam": {}
        },
        { "type": "cnv-tuning" }
      ]
    }`,
    "k8s.v1.cni.cncf.io/resourceName: bridge.network.kubevirt.io/br1",
  ),
  "KubeVirt, bridge and tuning": define(
    "a-bridge-network",
    `{
      "cniVersion": "0.3.1",
      "name": "a-bridge-network",
      "plugins": [
        { "type": "bridge", "bridge": "br1", "vlan": 1, "preserveDefaultVlan": false },
        { "type": "tuning" }
      ]
    }`,
  ),
  "KubeVirt's masquerade": define(
    "passt",
    '{ "cniVersion": "1.0.0", "name": "netbindingpasst", "type": "kubevirt-passt-binding" }',
  ),
  "OVN-Kubernetes, layer 2": define(
    "l2",
    `{
      "cniVersion": "0.4.0",
      "name": "l2-network",
      "type": "ovn-k8s-cni-overlay",
      "topology": "layer2",
      "subnets": "10.100.200.0/24",
      "mtu": 1300,
      "netAttachDefName": "ns1/l2",
      "excludeSubnets": "10.100.200.0/29"
    }`,
  ),
  "bond of two": define(
    "bond-net1",
    `{
      "type": "bond",
      "cniVersion": "0.3.1",
      "name": "bond-net1",
      "mode": "active-backup",
      "failOverMac": 1,
      "linksInContainer": true,
      "miimon": "100",
      "mtu": 1500,
      "links": [{ "name": "net1" }, { "name": "net2" }],
      "ipam": { "type": "host-local", "subnet": "10.56.217.0/24" }
    }`,
  ),
  "whereabouts with two ranges": define(
    "whereabouts",
    `{
      "cniVersion": "0.3.0",
      "name": "whereaboutsexample",
      "type": "macvlan",
      "master": "eth0",
      "mode": "bridge",
      "ipam": {
        "type": "whereabouts",
        "ipRanges": [
          { "range": "192.168.10.0/24" },
          { "range": "abcd::/64", "range_start": "abcd::10", "range_end": "abcd::ffff" }
        ],
        "log_file": "/tmp/whereabouts.log",
        "log_level": "debug",
        "gateway": "192.168.10.1",
        "enable_overlapping_ranges": true,
        "network_name": "blue"
      }
    }`,
  ),
  "whereabouts, overlapping by name": define(
    "whereabouts-b",
    '{ "cniVersion": "0.3.1", "type": "ipvlan", "master": "eth1", "mode": "l3", "ipam": { "type": "whereabouts", "range": "192.168.20.20-192.168.20.30/24", "routes": [{ "dst": "10.9.0.0/16" }] } }',
  ),
  "VLANs with tuning": define(
    "vlan-tuned",
    `{
      "cniVersion": "1.0.0",
      "name": "vlan-tuned",
      "plugins": [
        { "type": "vlan", "master": "eth1", "vlanId": 100, "ipam": { "type": "static" }, "capabilities": { "ips": true } },
        {
          "type": "tuning",
          "capabilities": { "mac": true },
          "sysctl": { "net.ipv4.conf.IFNAME.rp_filter": "2", "net.core.somaxconn": "500" },
          "promisc": true
        },
        { "type": "sbr" }
      ]
    }`,
  ),
  "vrf": define(
    "vrf-blue",
    '{ "cniVersion": "0.4.0", "name": "vrf-blue", "plugins": [{ "type": "macvlan", "master": "eth1", "ipam": { "type": "static", "addresses": [{ "address": "191.168.1.23/24" }] } }, { "type": "vrf", "vrfname": "vrf-1", "table": 1001 }] }',
  ),
  "tap for a user": define(
    "mynet",
    '{ "name": "mynet", "cniVersion": "0.3.1", "plugins": [{ "type": "tap", "multiQueue": true, "selinuxContext": "system_u:system_r:container_t:s0" }, { "type": "tuning", "sysctl": { "net.ipv6.conf.all.disable_ipv6": "1" } }] }',
  ),
  "InfiniBand": define(
    "ib-sriov",
    '{ "cniVersion": "0.3.1", "name": "ib-sriov-net", "plugins": [{ "type": "ib-sriov", "link_state": "enable", "rdmaIsolation": true, "ipam": {} }, { "type": "rdma" }] }',
    "k8s.v1.cni.cncf.io/resourceName: nvidia.com/ib",
  ),
  "Antrea as a second network": define(
    "vlan100",
    '{ "cniVersion": "0.3.0", "type": "antrea", "networkType": "vlan", "mtu": 1200, "vlan": 100, "ipam": { "type": "antrea", "ippools": ["vlan100pool1"] } }',
  ),
  "Kube-OVN's IPAM": define(
    "attachnet",
    '{ "cniVersion": "0.3.0", "type": "macvlan", "master": "eth0", "mode": "bridge", "ipam": { "type": "kube-ovn", "server_socket": "/run/openvswitch/kube-ovn-daemon.sock", "provider": "attachnet.default" } }',
  ),
  "flannel's ConfigMap": `kind: ConfigMap
apiVersion: v1
metadata:
  name: kube-flannel-cfg
  namespace: kube-flannel
data:
  cni-conf.json: |
    {
      "name": "cbr0",
      "cniVersion": "0.3.1",
      "plugins": [
        {
          "type": "flannel",
          "delegate": {
            "hairpinMode": true,
            "isDefaultGateway": true
          }
        },
        {
          "type": "portmap",
          "capabilities": {
            "portMappings": true
          }
        }
      ]
    }
  net-conf.json: |
    { "Network": "10.244.0.0/16", "Backend": { "Type": "vxlan" } }
`,
  "pods and workloads": `apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    k8s.v1.cni.cncf.io/networks: macvlan-conf, prod/ovs-conf@eth1
spec: { containers: [{ name: web, image: nginx }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  template:
    metadata:
      annotations:
        k8s.v1.cni.cncf.io/networks: '[{ "name": "red", "ips": ["10.1.0.5/24"], "mac": "02:00:5e:10:00:01" }]'
`,
};

/** Writes a definition; without a configuration, each node has it in a file. */
function define(name: string, config = "", annotation = ""): string {
  const spec = config === "" ? "" : `spec:\n  config: |\n    ${config}\n`;
  const more = annotation && `  annotations:\n    ${annotation}\n`;
  return `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: ${name}
${more}${spec}`;
}

Deno.test("validate has no finding for common networks", async (t) => {
  using temporary = new PluginDirectory();
  const check = async (...args: string[]): Promise<void> => {
    const { stdout } = await runCni(
      ...["validate", "--json", "--cni-path=/dev/null"],
      ...["--conf-dir=/dev/null", ...args],
    );
    const { problems, valid } = JSON.parse(stdout);
    assertEquals([problems, valid], [[], true]);
  };
  await eachRow(t, Object.entries(lists), async ([, list]) => {
    const content = JSON.stringify(list, null, 2);
    await check(temporary.addFile("10.conflist", content));
  });
  await eachRow(t, Object.entries(definitions), async ([, objects]) => {
    await check(temporary.addFile("objects.yaml", objects));
  });
  await t.step("kubenet, a bare plugin of 0.1.0", async () => {
    const content = JSON.stringify({
      cniVersion: "0.1.0",
      name: "kubenet",
      type: "bridge",
      bridge: "cbr0",
      isGateway: true,
      ipam: HOST_LOCAL,
    });
    await check(temporary.addFile("10.conf", content));
  });
  const pages = new URL("../../docs/", import.meta.url);
  await t.step("examples of the documentation", async (t) => {
    await check(`${pages.pathname}examples/10-ptp.conflist`);
    for await (const { name } of Deno.readDir(pages)) {
      if (!name.endsWith(".md")) continue;
      await t.step(name, async () => {
        for (const config of listExamples(new URL(name, pages))) {
          const extension = config["plugins"] ? "conflist" : "conf";
          const content = JSON.stringify(config);
          await check(temporary.addFile(`10.${extension}`, content));
        }
      });
    }
  });
});

/** Lists the configurations in a page; bare plugins get what a network needs. */
function listExamples(page: URL): Record<string, unknown>[] {
  const blocks = Deno.readTextFileSync(page).matchAll(/```json\n(.*?)```/gs);
  return [...blocks].flatMap(([, block = ""]) => {
    const config = JSON.parse(block);
    return config.type || Array.isArray(config.plugins)
      ? [{ cniVersion: "1.0.0", name: "net", ...config }]
      : [];
  });
}
