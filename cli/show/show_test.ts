import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AttachmentCache } from "../../libcni/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { needsKind } from "../../tests/_harness/on_master.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { listNodeAttachments } from "../node/node_attachments.ts";
import { listSandboxes, readNode, type Sandbox } from "./live.ts";
import { formatMermaid, formatTree } from "./tree.ts";
import {
  describeInterface,
  type InterfaceView,
  type NodeView,
} from "./model.ts";
import { drawNode } from "./svg.ts";
import { watchNetworks } from "./command.ts";

/** Attaches the sandbox to a bridge with masquerade and a rate, and caches that. */
async function attach(hosts: TestHosts): Promise<() => Sandbox[]> {
  const config = {
    cniVersion: "1.1.0",
    name: "pods",
    type: "bridge",
    bridge: "cni0",
    isGateway: true,
    ipMasq: true,
    ipMasqBackend: "nftables",
    ipam: {
      ...hosts.hostLocal("10.1.2.0/24", "fd00:1::/64"),
      routes: [{ dst: "0.0.0.0/0" }],
    },
  };
  const added = await hosts.run("bridge", "ADD", config);
  assertSuccess(added);
  const limited = await hosts.run("bandwidth", "ADD", {
    cniVersion: "1.1.0",
    name: "pods",
    type: "bandwidth",
    egressRate: 8_000_000,
    egressBurst: 8_000_000,
    ingressRate: 80_000_000,
    ingressBurst: 8_000_000,
    prevResult: added.json,
  });
  assertSuccess(limited);
  const cache = new AttachmentCache(hosts.directory);
  cache.writeAttachment({
    network: "pods",
    containerId: "test-container",
    ifName: "eth0",
    netns: hosts.sandbox.path,
    config: new TextEncoder().encode("{}"),
    cniArgs: [["K8S_POD_NAMESPACE", "default"], ["K8S_POD_NAME", "web"]],
    capabilityArgs: {},
  }, added.json);
  return () =>
    listSandboxes(listNodeAttachments({ cacheDir: hosts.directory }));
}

function eth0Of({ groups }: NodeView): InterfaceView {
  const [view] = groups.flatMap(({ sandboxes }) => sandboxes)
    .flatMap(({ interfaces }) => interfaces)
    .filter(({ name }) => name === "eth0");
  assert(view);
  return view;
}

rootTest(
  "cni show reads links, limits, NAT and differences from the kernel",
  async (t) => {
    using hosts = TestHosts.create();
    const sandboxes = await attach(hosts);
    const read = (): Promise<NodeView> =>
      readNode(sandboxes(), hosts.host.path);
    using rtnl = Rtnl.open(hosts.sandbox.path);
    const { index } = rtnl.link.get("eth0");
    const healthy = await read();
    await t.step("after ADD", () => {
      const [group, ...others] = healthy.groups;
      assertEquals(others, []);
      assertEquals([group?.name, group?.kind], ["cni0", "bridge"]);
      assertEquals(group?.addresses, ["10.1.2.1/24", "fd00:1::1/64"]);
      assertEquals(group?.foreignPorts, []);
      const view = eth0Of(healthy);
      const { limits: { ingress, egress } } = view;
      assertEquals(
        [ingress?.bitsPerSecond, ingress?.burstBytes],
        [80_000_000, 1_000_000],
      );
      assertEquals(egress?.bitsPerSecond, 8_000_000);
      assertEquals(egress?.link.slice(0, 3), "bwp");
      assertEquals(view.masquerade, {
        families: [4, 6],
        outboundAddresses: [],
      });
      assertEquals(view.hostAccess, null);
      assertEquals(view.addresses, ["10.1.2.2/24", "fd00:1::2/64"]);
      assertEquals(view.routes, ["default via 10.1.2.1"]);
      assertEquals(view.differences, []);
    });
    await t.step("after changes", async () => {
      rtnl.address.del(index, Cidr.parse("10.1.2.2/24"));
      rtnl.address.add({ ifindex: index, address: Cidr.parse("10.9.9.9/24") });
      rtnl.link.set(index, { mtu: 1300 });
      using host = Rtnl.open(hosts.host.path);
      const port = host.link.addIfb({
        name: "alien",
        mtu: 1500,
        transmitQueueLength: 1,
      });
      host.link.set(port.index, { masterIndex: host.link.get("cni0").index });
      const view = await read();
      assertEquals(eth0Of(view).differences, [
        "lacks address 10.1.2.2/24",
        "address 10.9.9.9/24 was added",
        "lacks route default",
        `MTU 1300, ${eth0Of(view).hostLink} has 1500`,
      ]);
      assertEquals(view.groups[0]?.foreignPorts, ["alien"]);
    });
    await t.step("as text, flowchart and diagram", async () => {
      const view = await read();
      const narrow = formatTree(view, chooseStyle(false, 50));
      assert(narrow.split("\n").every((line) => [...line].length <= 50));
      assertStringIncludes(
        formatTree(view, chooseStyle(false)),
        "✗ lacks route default",
      );
      assertStringIncludes(formatMermaid(view), '---|"eth0"| g0s0');
      const svg = drawNode(view);
      assertStringIncludes(svg, 'class="card bad"');
      assertStringIncludes(svg, "prefers-color-scheme: dark");
    });
    await t.step("without the interface", async () => {
      rtnl.link.del(index);
      assertEquals(eth0Of(await read()).differences, [
        "the interface no longer exists",
      ]);
    });
  },
);

/** A node with many pods. */
function crowd(count: number, name: string): NodeView {
  const face: InterfaceView = {
    name: "eth0",
    kind: "veth",
    network: "a network with quite a long name",
    hostLink: "veth0123456789a",
    isUp: true,
    mtu: 1500,
    mac: null,
    addresses: ["10.1.2.3/24", "fd00:1234:5678:9abc:def0:1234:5678:9abc/128"],
    routes: ["fd00:1234:5678:9abc::/64 via fd00:1234:5678:9abc:def0:1:2:3"],
    vlans: [],
    limits: { ingress: null, egress: null },
    masquerade: { families: [4, 6], outboundAddresses: [] },
    hostAccess: null,
    fromNetwork: null,
    claim: null,
    portMaps: [],
    differences: [`lacks <address> & "more"`],
  };
  const sandboxes = Array.from({ length: count }, (_, at) => ({
    pod: `default/${name}-${at}`,
    name: "blue",
    netns: "/run/netns/blue",
    containerIDs: ["c1"],
    exists: true,
    isForeign: false,
    rules: [],
    interfaces: at % 2 === 0 ? [face] : [face, { ...face, name: "net1" }],
  }));
  const group = {
    name: "cni0",
    kind: "bridge",
    isUp: true,
    mtu: 1500,
    addresses: ["10.1.2.1/24"],
    hasVlanFiltering: false,
    foreignPorts: [],
  };
  const groups = [{ ...group, sandboxes }];
  return { node: "n", uplinks: [], groups, staying: [] };
}

Deno.test("drawNode() draws no overlapping cards, and texts inside their cards", async (t) => {
  for (const count of [1, 6, 60]) {
    await t.step(`${count} pods`, () => {
      const svg = drawNode(crowd(count, "web".repeat(30)));
      const cards = [...svg.matchAll(
        /<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx="6"/g,
      )].map(([, ...numbers]) => numbers.map(Number));
      assertEquals(cards.length, count);
      for (
        const [at, [x = 0, y = 0, width = 0, height = 0]] of cards.entries()
      ) {
        const isOver = cards.slice(at + 1).some(([x2 = 0, y2 = 0]) =>
          x2 < x + width && x < x2 + width && y2 < y + height && y < y2 + height
        );
        assertEquals(isOver, false);
      }
      const longest = [
        ...svg.matchAll(/<text [^>]*>(?:<title>.*?<\/title>)?([^<]*)</g),
      ]
        .map(([, text = ""]) => text.replace(/&\w+;/g, "&").length);
      assert(Math.max(...longest) * 7.3 <= 400);
    });
  }
});

rootTest(
  "cni show --watch draws after changes, and exits on a signal",
  async () => {
    using hosts = TestHosts.create();
    using rtnl = Rtnl.open(hosts.sandbox.path);
    const end = new AbortController();
    let drawn = 0;
    const draw = (): Promise<void> => {
      drawn++;
      return Promise.resolve();
    };
    const sandboxes = [{ netns: hosts.sandbox.path, attachments: [] }];
    const watching = watchNetworks(() => sandboxes, draw, end.signal);
    await eventually("it draws at first", () => drawn > 0);
    const before = drawn;
    rtnl.link.set(rtnl.link.get("lo").index, { mtu: 1234 });
    await eventually("it draws after a change", () => drawn > before);
    end.abort();
    await watching;
  },
);

rootTest(
  "cni show shows masquerade by family, host access and limits in the sandbox",
  allOf(needsRuleTools, needsInetRules, needsKind("macvlan")),
  async (t) => {
    const attach = async (
      hosts: TestHosts,
      ...plugins: readonly Keys[]
    ): Promise<InterfaceView> => {
      let prevResult: unknown;
      for (const plugin of plugins) {
        const config = {
          cniVersion: "1.1.0",
          name: "pods",
          ...plugin,
          ...prevResult ? { prevResult } : {},
        };
        const added = await hosts.run(String(plugin["type"]), "ADD", config);
        assertSuccess(added);
        prevResult = added.json;
      }
      new AttachmentCache(hosts.directory).writeAttachment({
        network: "pods",
        containerId: "test-container",
        ifName: "eth0",
        netns: hosts.sandbox.path,
        config: new TextEncoder().encode("{}"),
        cniArgs: [],
        capabilityArgs: {},
      }, prevResult as JsonObject);
      const sandboxes = listSandboxes(
        listNodeAttachments({ cacheDir: hosts.directory }),
      );
      return eth0Of(await readNode(sandboxes, hosts.host.path));
    };
    for (const ipMasqBackend of ["nftables", "iptables"]) {
      await t.step(`masquerade by ${ipMasqBackend}`, async () => {
        using hosts = TestHosts.create();
        const view = await attach(hosts, {
          type: "ptp",
          ipMasq: true,
          ipMasqBackend,
          ipMasqFamilies: [6],
          outboundAddresses: ["2001:db8::9"],
          ipam: hosts.hostLocal("10.1.2.0/24", "fd00:1::/64"),
        });
        assertEquals(view.masquerade, {
          families: [6],
          outboundAddresses: ["2001:db8::9"],
        });
        assert(
          describeInterface(view)
            .includes("masquerade of IPv6 only as 2001:db8::9"),
        );
      });
    }
    await t.step("host access and limits", async () => {
      using hosts = TestHosts.create();
      const script = `ip link add lan type veth peer name wire
        ip link set wire up; ip link set lan up
        ip address add 10.7.2.200/24 dev lan`;
      runIn(hosts.host, "sh", "-ec", script);
      const view = await attach(hosts, {
        type: "macvlan",
        master: "lan",
        hostAccess: true,
        ipam: hosts.hostLocal("10.7.2.0/24"),
      }, { type: "bandwidth", ingressRate: 8e6, egressRate: 16e6 });
      const { limits: { ingress, egress }, hostAccess } = view;
      assertEquals(
        [ingress?.bitsPerSecond, egress?.bitsPerSecond, egress?.link],
        [8e6, 16e6, "eth0"],
      );
      const facts = describeInterface(view);
      assert(facts.includes(`host access over ${hostAccess}`), `${facts}`);
      assert(facts.some((fact) => fact.startsWith("in ≤ 8 Mbit/s")));
      runIn(hosts.host, "ip", "link", "del", hostAccess ?? "");
      const again = await readNode(
        listSandboxes(listNodeAttachments({ cacheDir: hosts.directory })),
        hosts.host.path,
      );
      assertEquals(eth0Of(again).hostAccess, null);
    });
  },
);

Deno.test("cni show refuses --exit-code with --watch, which has no end", async () => {
  const { exitCode, stderr } = await runCni("show", "--watch", "--exit-code");
  assertEquals(exitCode, 1);
  assertStringIncludes(stderr, "do not use --exit-code with it");
});
