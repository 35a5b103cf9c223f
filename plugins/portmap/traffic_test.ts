import { assert, assertEquals } from "@std/assert";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import {
  isClosed,
  PortScene,
  TcpServer,
  UdpClient,
  UdpCounter,
} from "../../tests/_harness/port_scene.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";

const needsTools = allOf(
  needsInetRules,
  ignoreUnless(hasCommand("nft"), "needs nft"),
);

rootTest(
  "portmap forwards from everywhere by nftables",
  needsTools,
  async () => {
    using scene = new PortScene();
    const { host, outside } = scene;
    const attached = await scene.attach([
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      { hostPort: 8081, containerPort: 80, hostIP: "192.0.2.1" },
    ]);
    const { sandbox, addresses: [address = "", address6 = ""] } = attached;
    using server = new TcpServer(sandbox, 80);
    assertEquals(
      await server.clientOf(outside, "192.0.2.1", 8080),
      "192.0.2.2",
    );
    assertEquals(
      await server.clientOf(outside, "192.0.2.1", 8081),
      "192.0.2.2",
    );
    assertEquals(
      await server.clientOf(outside, "2001:db8:ff::1", 8080),
      "2001:db8:ff::2",
    );
    assertEquals(await server.clientOf(host, "127.0.0.1", 8080), "10.1.2.1");
    assertEquals(await server.clientOf(host, "192.0.2.1", 8080), "192.0.2.1");
    assertEquals(await server.clientOf(sandbox, "192.0.2.1", 8080), "10.1.2.1");
    assertEquals(
      await server.clientOf(sandbox, "2001:db8:ff::1", 8080),
      "2001:db8:1::1",
    );
    assertEquals(await server.clientOf(sandbox, "10.1.2.1", 8080), "10.1.2.1");
    assert(isClosed(outside, "2001:db8:ff::1", 8081));
    assertSuccess(await attached.run("CHECK"));
    assertSuccess(await attached.run("DEL"));
    assertEquals(scene.table, "");
    assert(isClosed(outside, "192.0.2.1", 8080));
    assertEquals([address, address6], ["10.1.2.2", "2001:db8:1::2"]);
  },
);

rootTest(
  "portmap takes a running UDP flow to the next container",
  needsTools,
  async () => {
    using scene = new PortScene();
    const { outside } = scene;
    const mappings = [{ hostPort: 8080, containerPort: 81, protocol: "udp" }];
    using client = new UdpClient(outside, "192.0.2.1", 8080);
    const first = await scene.attach(mappings);
    const one = new UdpCounter(first.sandbox, 81);
    client.send();
    await one.reaches(1);
    assertSuccess(await first.run("DEL"));
    client.send();
    const second = await scene.attach(mappings, {
      containerId: "second",
      sandbox: scene.hosts.addNetns(),
    });
    const two = new UdpCounter(second.sandbox, 81);
    client.send();
    await two.reaches(1);
    assertEquals(one.packets, 1);
  },
);
