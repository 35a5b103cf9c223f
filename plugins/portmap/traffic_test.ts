/**
 * Traffic through ports that portmap forwards, of this project and of the Go
 * plugin.
 */

import { assert, assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { needsGo, type Who } from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import {
  isClosed,
  PacketCounter,
  PortScene,
  sendSctpInit,
  TcpServer,
  UdpClient,
} from "./testing/port_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const needsBothBackends = allOf(needsRuleTools, needsInetRules);
const IPTABLES = { backend: "iptables" };

/** Which client a server sees by way of an address, in each place. */
async function clientsOf(scene: PortScene, who: Who): Promise<unknown> {
  const { host, outside } = scene;
  const attached = await scene.attach([
    { hostPort: 8080, containerPort: 80, protocol: "tcp" },
    { hostPort: 8081, containerPort: 80, protocol: "tcp", hostIP: "192.0.2.1" },
  ], { who });
  const { sandbox } = attached;
  const clients: Record<string, string> = {};
  {
    using server = new TcpServer(sandbox, 80);
    const places = { host, outside, sandbox };
    for (
      const [from, address, port] of [
        ["outside", "192.0.2.1", 8080],
        ["outside", "192.0.2.1", 8081],
        ["outside", "2001:db8:ff::1", 8080],
        ["host", "127.0.0.1", 8080],
        ["host", "192.0.2.1", 8080],
        ["sandbox", "192.0.2.1", 8080],
        ["sandbox", "10.1.2.1", 8080],
        ["sandbox", "2001:db8:ff::1", 8080],
      ] as const
    ) {
      clients[`${from} to ${address}:${port}`] = await server.clientOf(
        places[from],
        address,
        port,
      );
    }
    assert(isClosed(outside, "2001:db8:ff::1", 8081));
    assertSuccess(await attached.run("CHECK"));
  }
  assertSuccess(await attached.run("DEL"));
  assert(isClosed(outside, "192.0.2.1", 8080));
  return clients;
}

rootTest(
  "portmap with iptables forwards from everywhere, as the Go plugin does",
  allOf(needsRuleTools, needsGo("portmap")),
  async () => {
    using ours = new PortScene(IPTABLES);
    const clients = await clientsOf(ours, "ours");
    assertEquals(clients, {
      "outside to 192.0.2.1:8080": "192.0.2.2",
      "outside to 192.0.2.1:8081": "192.0.2.2",
      "outside to 2001:db8:ff::1:8080": "2001:db8:ff::2",
      "host to 127.0.0.1:8080": "10.1.2.1",
      "host to 192.0.2.1:8080": "192.0.2.1",
      "sandbox to 192.0.2.1:8080": "10.1.2.1",
      "sandbox to 10.1.2.1:8080": "10.1.2.1",
      "sandbox to 2001:db8:ff::1:8080": "2001:db8:1::1",
    });
    using go = new PortScene(IPTABLES);
    assertEquals(await clientsOf(go, "go"), clients);
  },
);

rootTest(
  "portmap with iptables moves a running UDP flow to the next container",
  needsRuleTools,
  async () => {
    using scene = new PortScene(IPTABLES);
    const mappings = [{ hostPort: 8080, containerPort: 81, protocol: "udp" }];
    using client = new UdpClient(scene.outside, "192.0.2.1", 8080);
    const netns = `${scene.hosts.directory}/netns`;
    await Deno.symlink(scene.hosts.sandbox.path, netns);
    const first = await scene.attach(mappings, { env: { CNI_NETNS: netns } });
    const one = new PacketCounter(first.sandbox, 81);
    client.send();
    await one.reaches(1);
    // Its DEL never comes.
    await Deno.remove(netns);
    const second = await scene.attach(mappings, {
      containerId: "second",
      sandbox: scene.hosts.addNetns(),
    });
    const two = new PacketCounter(second.sandbox, 81);
    client.send();
    await two.reaches(1);
    assertEquals(one.packets, 1);
  },
);

rootTest(
  "portmap prefers a mapping with hostIP, in either order",
  needsBothBackends,
  async (t) => {
    const one = { containerPort: 80, protocol: "tcp", hostPort: 8080 };
    const orders = [[undefined, "192.0.2.1"], ["192.0.2.1", undefined]];
    const rows = ["nftables", "iptables"].flatMap((backend) =>
      orders.flatMap((order) =>
        [true, false].map((isSame) => ({ backend, order, isSame }))
      )
    );
    await eachRow(
      t,
      rows,
      async ({ backend, order, isSame }) => {
        using scene = new PortScene({ backend });
        const { host, outside } = scene;
        const mappings = order.map((hostIP, at) => ({
          ...one,
          containerPort: isSame ? 80 + at : 80,
          ...hostIP && { hostIP },
        }));
        const [first, second] = mappings as [typeof one, typeof one];
        const sandboxes = [
          scene.hosts.sandbox,
          scene.hosts.addNetns(),
        ] as const;
        if (isSame) await scene.attach(mappings);
        else {
          await scene.attach([first]);
          const sandbox = sandboxes[1];
          await scene.attach([second], { containerId: "second", sandbox });
        }
        using stack = new DisposableStack();
        const [addressed, other] = [
          order.indexOf("192.0.2.1"),
          order.indexOf(undefined),
        ]
          .map((at) =>
            stack.use(
              new TcpServer(
                sandboxes[isSame ? 0 : at] ?? host,
                isSame ? 80 + at : 80,
              ),
            )
          ) as [TcpServer, TcpServer];
        await addressed.clientOf(outside, "192.0.2.1", 8080);
        await other.clientOf(host, "127.0.0.1", 8080);
      },
      ({ backend, order, isSame }) =>
        `${backend}, ${order[0] ?? "all"} first, ${isSame ? "one" : "two"}`,
    );
  },
);

/** Conditions that spare the Services of a cluster, and the port's backend. */
const SPARES_SERVICES: readonly Keys[] = [
  {
    backend: "nftables",
    conditionsV4: ["ip", "daddr", "!=", "10.96.0.0/12"],
    conditionsV6: ["ip6", "daddr", "!=", "fd96::/108"],
  },
  {
    backend: "iptables",
    conditionsV4: ["!", "-d", "10.96.0.0/12"],
    conditionsV6: ["!", "-d", "fd96::/108"],
  },
];

rootTest(
  "portmap with a condition does not affect Services on kube-ipvs0",
  needsBothBackends,
  async (t) => {
    await eachRow(t, SPARES_SERVICES, async (keys) => {
      using scene = new PortScene(keys);
      const { host, outside } = scene;
      const { sandbox } = await scene.attach([
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      ]);
      using server = new TcpServer(sandbox, 80);
      // As kube-proxy, but not every kernel has dummy links.
      for (
        const command of [
          "link add kube-ipvs0 up type bridge",
          "addr add 10.96.0.10/32 dev kube-ipvs0",
          "addr add fd96::10/128 dev kube-ipvs0 nodad",
        ]
      ) runIn(host, "ip", ...command.split(" "));
      for (const service of ["10.96.0.10", "fd96::10"]) {
        assert(isClosed(host, service, 8080), `${service} from the host`);
        assert(isClosed(sandbox, service, 8080), `${service} from the pod`);
      }
      await server.clientOf(outside, "192.0.2.1", 8080);
      await server.clientOf(outside, "2001:db8:ff::1", 8080);
      await server.clientOf(sandbox, "192.0.2.1", 8080);
    }, ({ backend }) => backend as string);
  },
);

rootTest("portmap forwards SCTP", needsBothBackends, async (t) => {
  await eachRow(t, ["nftables", "iptables"], async (backend) => {
    using scene = new PortScene({ backend });
    const { sandbox, run } = await scene.attach(
      [{ hostPort: 9000, containerPort: 90, protocol: "sctp" }],
    );
    const counter = new PacketCounter(sandbox, 90, "sctp");
    sendSctpInit(scene.outside, "192.0.2.1", 9000);
    await counter.reaches(1);
    assertSuccess(await run("CHECK"));
    assertSuccess(await run("DEL"));
    sendSctpInit(scene.outside, "192.0.2.1", 9000);
    assertEquals(counter.packets, 1);
  }, (backend) => backend);
});
