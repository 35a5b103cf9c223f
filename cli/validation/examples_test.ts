import { assertEquals } from "@std/assert";
import { PluginFolder } from "../../tests/_harness/plugin_folder.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

const DEFAULT = { dst: "0.0.0.0/0" };
const HOST_LOCAL = { type: "host-local", subnet: "10.10.0.0/16" };
const PORTMAP = { type: "portmap", capabilities: { portMappings: true } };

/** Networks that runtimes and other projects install, and examples of the Go plugins' documentation. */
const lists: Readonly<Record<string, object>> = {
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
        ingressRate: 123,
        ingressBurst: 456,
        egressRate: 123,
        egressBurst: 456,
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

Deno.test("validate finds nothing wrong with common networks", async (t) => {
  using temporary = new PluginFolder();
  const check = async (...args: string[]): Promise<void> => {
    const { stdout } = await runCni(
      ...["validate", "--json", "--cni-path=/dev/null"],
      ...["--conf-dir=/dev/null", ...args],
    );
    const { problems } = JSON.parse(stdout);
    assertEquals(problems, []);
  };
  await eachRow(t, Object.entries(lists), async ([, list]) => {
    const content = JSON.stringify(list, null, 2);
    await check(temporary.addFile("10.conflist", content));
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
    return config.type || config.plugins
      ? [{ cniVersion: "1.0.0", name: "net", ...config }]
      : [];
  });
}
