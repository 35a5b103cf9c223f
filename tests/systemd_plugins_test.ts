/**
 * Each plugin through a daemon that is confined as its unit says, on a machine
 * that a real systemd runs.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { inNetns, NetNs } from "../ffi/netns.ts";
import { pluginNames } from "../plugins/registry.ts";
import { allOf } from "../testing/capabilities.ts";
import { needsDnsmasq } from "../ipam/dhcp/testing.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import { KubeApi } from "../kube/testing/kube_api.ts";
import {
  type Ended,
  needsSystemd,
  SystemdNode,
} from "./_harness/systemd_node.ts";
import { eachRow } from "./_harness/table.ts";

const { ignore, suffix } = allOf(needsBin, needsSystemd, needsDnsmasq);

type Keys = Readonly<Record<string, unknown>>;

/** A list of plugins, and kinds of links that its kernel must have. */
interface Network {
  readonly plugins: readonly Keys[];
  /** For the environment of `cni`. */
  readonly env?: string;
  /** What `ip link add` makes, if a kernel may not have it. */
  readonly link?: string;
}

const STATIC = {
  type: "static",
  addresses: [{ address: "10.40.0.2/24", gateway: "10.40.0.1" }],
};
const POD = "CNI_ARGS='IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=p1'";
const KUBE = "/root/kube/kubeconfig";

function onMaster(type: string, more: Keys = {}): readonly Keys[] {
  return [{ type, master: "up0", ipam: STATIC, ...more }];
}

const NETWORKS: Readonly<Record<string, Network>> = {
  many: {
    plugins: [
      {
        type: "ptp",
        ipMasq: true,
        ipam: { type: "host-local", subnet: "10.41.0.0/24" },
      },
      { type: "tuning", mtu: 1400, sysctl: { "net.core.somaxconn": "500" } },
      { type: "bandwidth", ingressRate: 1e6, ingressBurst: 1e6 },
      {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      },
      { type: "firewall", backend: "nftables" },
      { type: "sbr" },
    ],
    env:
      `CAP_ARGS='{"portMappings":[{"hostPort":80,"containerPort":80,"protocol":"tcp"}]}'`,
  },
  static: { plugins: [{ type: "bridge", bridge: "br1", ipam: STATIC }] },
  dhcp: {
    plugins: [{ type: "bridge", bridge: "br0", ipam: { type: "dhcp" } }],
  },
  whereabouts: {
    plugins: [{
      type: "bridge",
      bridge: "br2",
      ipam: {
        type: "whereabouts",
        range: "10.42.0.0/24",
        kubernetes: { kubeconfig: KUBE },
      },
    }],
    env: POD,
  },
  multus: {
    plugins: [{
      type: "multus",
      kubeconfig: KUBE,
      delegates: [{
        cniVersion: "1.0.0",
        name: "first",
        plugins: [{ type: "ptp", ipam: { ...STATIC } }],
      }],
    }],
    env: POD,
  },
  flannel: { plugins: [{ type: "flannel", delegate: { bridge: "br3" } }] },
  macvlan: { plugins: onMaster("macvlan") },
  ipvlan: { plugins: onMaster("ipvlan"), link: "link up0 type ipvlan" },
  vlan: {
    plugins: onMaster("vlan", { vlanId: 5 }),
    link: "link up0 type vlan id 5",
  },
  dummy: { plugins: [{ type: "dummy", ipam: STATIC }], link: "type dummy" },
  vrf: {
    plugins: [{ type: "macvlan", master: "up0", ipam: STATIC }, {
      type: "vrf",
      vrfname: "red",
    }],
    link: "type vrf table 9",
  },
  tap: { plugins: [{ type: "tap", ipam: STATIC }] },
  "host-device": { plugins: [{ type: "host-device", device: "dev0" }] },
  loopback: { plugins: [{ type: "loopback" }] },
};

const SETUP = `
/mnt/cni install /opt/cni/bin --no-daemon --only ${pluginNames} >/dev/null
mkdir -p /etc/cni/net.d /run/flannel /root/kube
ip netns add blue
ip link add up0 type veth peer name up1 && ip link set up0 up && ip link set up1 up
ip link add dev0 type veth peer name dev1
ip link add br0 type bridge && ip address add 10.9.0.1/24 dev br0 && ip link set br0 up
printf 'FLANNEL_NETWORK=10.244.0.0/16\\nFLANNEL_SUBNET=10.244.1.1/24\\nFLANNEL_MTU=1450\\nFLANNEL_IPMASQ=true\\n' >/run/flannel/subnet.env
mkdir -p /etc/systemd/system/cni-daemon.service.d
printf '[Service]\\nExecStart=\\nExecStart=/opt/cni/bin/cni daemon --dhcp-socket=/run/cni/dhcp.sock\\n' >/etc/systemd/system/cni-daemon.service.d/dhcp.conf
/opt/cni/bin/cni daemon enable >/dev/null`;

/** Starts dnsmasq in the node's network, on br0. */
function startDnsmasq(netns: NetNs): Deno.ChildProcess {
  const range = "--dhcp-range=10.9.0.10,10.9.0.99,255.255.255.0,1h";
  return inNetns(netns, () =>
    new Deno.Command("dnsmasq", {
      args: [
        ...["--keep-in-foreground", "--conf-file=/dev/null", "--user=root"],
        ...["--port=0", "--pid-file=", "--log-facility=-", "--interface=br0"],
        ...["--bind-interfaces", "--no-ping", "--dhcp-authoritative"],
        ...["--leasefile-ro", range],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn());
}

Deno.test({
  name: `systemd: the confined daemon runs each plugin${suffix}`,
  ignore,
  async fn(t): Promise<void> {
    await using node = await SystemdNode.boot();
    await node.get(SETUP);
    using netns = NetNs.open(node.netns);
    const dnsmasq = startDnsmasq(netns);
    await using api = await KubeApi.start({ netns });
    api.put("namespaces", { metadata: { name: "kube-system" } });
    api.putPod({
      metadata: {
        name: "p1",
        namespace: "test",
        uid: "u1",
        annotations: { "k8s.v1.cni.cncf.io/networks": "more" },
      },
    });
    api.putNad("test", "more", {
      cniVersion: "1.0.0",
      ...onMaster("macvlan")[0],
    });
    api.writeKubeconfig(node.pathOf("/root/kube"), "token");
    for (const [name, { plugins }] of Object.entries(NETWORKS)) {
      const list = { cniVersion: "1.0.0", name, plugins };
      const path = node.pathOf(`/etc/cni/net.d/${name}.conflist`);
      Deno.writeTextFileSync(path, JSON.stringify(list));
    }
    await eachRow(t, Object.entries(NETWORKS), async ([name, network]) => {
      const { plugins, link } = network;
      const byDaemon = await runAll(node, name, network);
      const alone = await runAll(node, name, network, "--no-daemon");
      assertEquals(byDaemon, alone);
      const isKnown = link === undefined ||
        (await node.run(`ip link add ${link} name probe`)).code === 0;
      await node.run("ip link del probe");
      if (!isKnown) return;
      const codes = alone.map(({ code }) => code);
      assertEquals(codes, [0, 0, 0], alone[0]?.text);
      const types = plugins.map(({ type }) => type);
      const expected = COMMANDS.flatMap((command) =>
        (command === "del" ? types.toReversed() : types)
          .map((type) => `${type} ${command.toUpperCase()} 0`)
      );
      let story: string[] = [];
      await eventually(
        "the journal has all calls",
        async () =>
          (story = await readStory(node, name)).length >=
            expected.length,
        () => story.join(),
      );
      assertEquals(story, expected);
    });
    dnsmasq.kill();
    await dnsmasq.status;
  },
});

const COMMANDS = ["add", "check", "del"];

/** Attaches a namespace, checks it and detaches it. */
async function runAll(
  node: SystemdNode,
  name: string,
  { env = "" }: Network,
  flag = "",
): Promise<Ended[]> {
  const ended: Ended[] = [];
  for (const command of COMMANDS) {
    const { code, text } = await node.run(
      `${env} /opt/cni/bin/cni ${command} ${name} blue ${flag} 2>&1`,
    );
    ended.push({ code, text: text.replaceAll(CHANGING, "…") });
  }
  return ended;
}

/** MAC addresses, names of veths, leases, and addresses made of MAC addresses. */
const CHANGING =
  /(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|veth[0-9a-f]+|10\.\d+\.[01]\.\d+/g;

/** Reads which calls of a network the daemon has run: `ptp ADD 0`. */
async function readStory(node: SystemdNode, name: string): Promise<string[]> {
  const log = await node.get("journalctl -q -u cni-daemon -o cat");
  const line =
    /msg=call plugin=(\S+) command=(\S+) network=(\S+) .* code=(\d+)/;
  return log.split("\n").flatMap((text) => {
    const [, plugin, command, network, code] = line.exec(text) ?? [];
    return network === name ? [`${plugin} ${command} ${code}`] : [];
  });
}
