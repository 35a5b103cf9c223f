/**
 * portmap: its configuration, its elements of nftables, and traffic, as the Go
 * plugin's own tests have them.
 *
 * Source: containernetworking/plugins plugins/meta/portmap/portmap_test.go,
 * portmap_nftables_test.go, portmap_integ_test.go.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { listVersionsFrom } from "../../cni/version.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { assertFailure, assertSuccess } from "../_harness/call_outcome.ts";
import { conformance } from "../_harness/conformance.ts";
import {
  MappedPorts,
  onePort,
  portElementsOf,
  SAMPLE,
  withPorts,
} from "../../plugins/portmap/testing/mapped_ports.ts";
import type { Keys } from "../_harness/plugin_scene.ts";
import {
  isClosed,
  PacketCounter,
  PortScene,
  TcpServer,
  UdpClient,
} from "../../plugins/portmap/testing/port_scene.ts";
import { needsInetRules, needsRuleTools } from "../_harness/rules.ts";
import { eachRow } from "../_harness/table.ts";

const NFTABLES = { backend: "nftables" };

/** Lists the elements that an ADD leaves. */
async function elementsOf(
  keys: Keys,
  addresses?: readonly string[],
): Promise<string[]> {
  using ports = new MappedPorts(NFTABLES);
  await ports.succeed("ADD", keys, { addresses });
  return portElementsOf(ports.hosts.host);
}

/** Refuses ADD with code 7 and a text. */
async function assertRefused(keys: Keys, text: string): Promise<void> {
  using ports = new MappedPorts();
  assertFailure(await ports.run("ADD", keys), 7, text);
  assertEquals(ports.table, "");
}

/** Lists the elements of the masquerade that an ADD leaves. */
async function masqueraded(keys: Keys, address: string): Promise<string[]> {
  const elements = await elementsOf(keys, [address]);
  return elements.filter((element) => element.startsWith("masq"));
}

conformance("portmap", {
  "PM-1 takes the sandbox's first addresses, and masquerades by default":
    async () => {
      using ports = new MappedPorts(NFTABLES);
      const { path } = ports.hosts.sandbox;
      const prevResult = {
        cniVersion: "1.0.0",
        interfaces: [
          { name: "eth0" },
          { name: "other", sandbox: path },
          { name: "eth0", sandbox: path },
        ],
        ips: [
          { address: "10.0.0.1/24", interface: 0 },
          { address: "10.0.0.2/24", interface: 1 },
          { address: "2001:db8::2/64", interface: 1 },
          { address: "10.0.0.3/24", interface: 2 },
          { address: "2001:db8::3/64", interface: 2 },
          { address: "10.0.0.4/24", interface: 2 },
        ],
      };
      await ports.succeed("ADD", { prevResult });
      assertEquals(portElementsOf(ports.hosts.host), [
        "masqueraded4: 10.0.0.0 . 10.0.0.3",
        "masqueraded4: 127.0.0.0 . 10.0.0.3",
        "masqueraded6: 2001:db8:: . 2001:db8::3",
        "ports4: tcp . 8080 : 10.0.0.3 . 80",
        "ports6: tcp . 8080 : 2001:db8::3 . 80",
      ]);
    },

  "PM-2 DEL needs neither runtimeConfig nor prevResult": async () => {
    using ports = new MappedPorts(NFTABLES);
    await ports.succeed("ADD");
    const keys = { runtimeConfig: undefined, prevResult: undefined };
    assertSuccess(await ports.run("DEL", keys));
    assertEquals(ports.table, "");
  },

  "PM-3 refuses ports that do not exist": async (t) => {
    await eachRow(
      t,
      [
        [0, 80, "Invalid host port number: 0"],
        [-1, 80, "Invalid host port number: -1"],
        [65536, 80, "Invalid host port number: 65536"],
        [8080, 0, "Invalid container port number: 0"],
        [8080, 65536, "Invalid container port number: 65536"],
      ] as const,
      ([hostPort, containerPort, text]) =>
        assertRefused(onePort(hostPort, containerPort), text),
    );
  },

  "PM-4 uses iptables if the host has it": async () => {
    using ports = new MappedPorts();
    await ports.succeed("ADD");
    assertEquals(ports.table, "");
    assert(ports.containerRules().length > 0);
  },

  "PM-5 uses nftables if it is asked for": async () => {
    using ports = new MappedPorts();
    await ports.succeed("ADD", NFTABLES);
    assertMatch(ports.table, /tcp \. 8080/);
    assertEquals(ports.containerRules(), []);
  },

  "PM-6 takes conditions of nftables": async () => {
    using ports = new MappedPorts(NFTABLES);
    const conditionsV4 = ["ip", "daddr", "192.168.0.0/16"];
    const conditionsV6 = ["ip6", "daddr", "2001:db8::/32"];
    await ports.succeed("ADD", { conditionsV4, conditionsV6 });
    assertMatch(ports.table, /ip daddr 192\.168\.0\.0\/16 jump when_/);
    assertMatch(ports.table, /ip6 daddr 2001:db8::\/32 jump when_/);
    await ports.succeed("CHECK", { conditionsV4, conditionsV6 });
    await ports.succeed("DEL");
    assertEquals(ports.table, "");
  },

  "PM-7 refuses options of nftables with iptables": async () => {
    const conditions = {
      conditionsV4: ["ip", "daddr", "192.168.0.0/16"],
      conditionsV6: ["ip6", "daddr", "2001:db8::/32"],
    };
    for (const keys of [{ backend: "iptables" }, {}]) {
      await assertRefused(
        { ...conditions, ...keys },
        "iptables backend was requested but configuration contains nftables-specific options [conditionsV4 conditionsV6]",
      );
    }
  },

  "PM-8 refuses options of iptables with nftables": async () => {
    await assertRefused(
      {
        ...NFTABLES,
        externalSetMarkChain: "PLZ-SET-MARK",
        conditionsV4: ["-s", "1.2.3.4"],
        conditionsV6: ["!", "-s", "12::34"],
      },
      "nftables backend was requested but configuration contains iptables-specific options [externalSetMarkChain conditionsV4 conditionsV6]",
    );
  },

  "PM-9 takes addresses that name no interface": async () => {
    using ports = new MappedPorts(NFTABLES);
    const prevResult = {
      cniVersion: "1.0.0",
      ips: [{ address: "10.0.0.2/24" }],
    };
    await ports.succeed("ADD", { prevResult });
    assertMatch(ports.table, /tcp \. 8080 .*: 10\.0\.0\.2 \. 80/);
  },

  "PM-16 maps ports by protocol, family and the host's address": async () => {
    const addresses = ["10.0.0.2/24", "2001:db8::2/64"];
    const keys = { ...withPorts(SAMPLE), snat: false };
    assertEquals(await elementsOf(keys, addresses), [
      "addressed_ports4: 192.168.0.2 . tcp . 8083 : 10.0.0.2 . 83",
      "addressed_ports6: 2001:db8:a::1 . tcp . 8085 : 2001:db8::2 . 85",
      "ports4: tcp . 8080 : 10.0.0.2 . 80",
      "ports4: tcp . 8081 : 10.0.0.2 . 80",
      "ports4: tcp . 8084 : 10.0.0.2 . 84",
      "ports4: udp . 8080 : 10.0.0.2 . 81",
      "ports4: udp . 8082 : 10.0.0.2 . 82",
      "ports6: tcp . 8080 : 2001:db8::2 . 80",
      "ports6: tcp . 8081 : 2001:db8::2 . 80",
      "ports6: tcp . 8086 : 2001:db8::2 . 86",
      "ports6: udp . 8080 : 2001:db8::2 . 81",
      "ports6: udp . 8082 : 2001:db8::2 . 82",
    ]);
  },

  "PM-17 CHECK fails before ADD, without the masquerade, and after DEL":
    async () => {
      using ports = new MappedPorts(NFTABLES);
      const check = async (keys?: Keys): Promise<string> =>
        (await ports.run("CHECK", keys)).json?.msg ?? "";
      assertMatch(
        await check(),
        /^missing hostport rules in "hostports" chain/,
      );
      await ports.succeed("ADD", { snat: false });
      assertEquals(await check({ snat: false }), "");
      assertMatch(await check(), /^missing hostport rules in "postrouting"/);
      await ports.succeed("ADD");
      assertEquals(await check(), "");
      await ports.succeed("DEL");
      assertMatch(await check(), /^missing hostport rules/);
    },

  "PM-18 masqueraded with masqAll, IPv4": async () =>
    assertEquals(await masqueraded({ masqAll: true }, "10.0.0.2/24"), [
      "masqueraded4: 0.0.0.0 . 10.0.0.2",
    ]),

  "PM-19 masqueraded with masqAll, IPv6": async () =>
    assertEquals(await masqueraded({ masqAll: true }, "2001:db8::2/64"), [
      "masqueraded6: :: . 2001:db8::2",
    ]),

  "PM-20 masqueraded without masqAll, IPv4": async () =>
    assertEquals(await masqueraded({}, "10.0.0.2/24"), [
      "masqueraded4: 10.0.0.0 . 10.0.0.2",
      "masqueraded4: 127.0.0.0 . 10.0.0.2",
    ]),

  "PM-21 masqueraded without masqAll, IPv6": async () =>
    assertEquals(await masqueraded({}, "2001:db8::2/64"), [
      "masqueraded6: 2001:db8:: . 2001:db8::2",
    ]),

  "PM-22 CHECK follows masqAll": async () => {
    using ports = new MappedPorts(NFTABLES);
    for (const [added, other] of [[true, false], [false, true]]) {
      await ports.succeed("ADD", { masqAll: added });
      await ports.succeed("CHECK", { masqAll: added });
      const { exitCode } = await ports.run("CHECK", { masqAll: other });
      assertEquals(exitCode, 1);
      await ports.succeed("DEL");
    }
  },

  "PM-27 TCP reaches the container from everywhere": async (t) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = new PortScene({ backend });
      const { host, outside } = scene;
      const attached = await scene.attach([
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      ]);
      const { sandbox } = attached;
      using server = new TcpServer(sandbox, 80);
      const clientOf = (from: typeof host, address: string): Promise<string> =>
        server.clientOf(from, address, 8080);
      assertEquals(await clientOf(outside, "192.0.2.1"), "192.0.2.2");
      assertEquals(await clientOf(host, "192.0.2.1"), "192.0.2.1");
      assertEquals(await clientOf(host, "127.0.0.1"), "10.1.2.1");
      assertEquals(await clientOf(sandbox, "192.0.2.1"), "10.1.2.1");
      assertEquals(await server.clientOf(host, "10.1.2.2", 80), "10.1.2.1");
      assertEquals(
        await clientOf(outside, "2001:db8:ff::1"),
        "2001:db8:ff::2",
      );
      assertEquals(
        await clientOf(sandbox, "2001:db8:ff::1"),
        "2001:db8:1::1",
      );
      assertSuccess(await attached.run("CHECK"));
      assertSuccess(await attached.run("DEL"));
      for (const address of ["192.0.2.1", "2001:db8:ff::1"]) {
        assert(isClosed(outside, address, 8080));
      }
      assert(isClosed(host, "127.0.0.1", 8080));
    });
  },

  "PM-28 a flow of UDP goes to the container that takes over the port": async (
    t,
  ) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = new PortScene({ backend });
      const mappings = [
        { hostPort: 8080, containerPort: 81, protocol: "udp" },
      ];
      using client = new UdpClient(scene.outside, "192.0.2.1", 8080);
      const first = await scene.attach(mappings);
      const one = new PacketCounter(first.sandbox, 81);
      client.send();
      await one.reaches(1);
      assertSuccess(await first.run("DEL"));
      // Makes a connection to the host itself.
      runIn(scene.host, "sh", "-c", COUNT_CONNECTIONS);
      client.send();
      const sandbox = scene.hosts.addNetns();
      const next = { containerId: "next", sandbox };
      const second = await scene.attach(mappings, next);
      const two = new PacketCounter(second.sandbox, 81);
      client.send();
      await two.reaches(1);
      assertEquals(one.packets, 1);
    });
  },
}, allOf(needsRoot, needsRuleTools, needsInetRules));

/** Keeps tracking on when no rule of portmap is left. */
const COUNT_CONNECTIONS = `nft add table inet tracking
nft add chain inet tracking in '{ type nat hook input priority 100; }'`;

for (const cniVersion of listVersionsFrom("0.1.0")) {
  conformance("portmap", {
    [`ADD and DEL, ${cniVersion}`]: async () => {
      using ports = new MappedPorts({ ...NFTABLES, cniVersion });
      const prevResult = resultOf(cniVersion);
      const { json } = await ports.succeed("ADD", { prevResult });
      assertEquals(json.cniVersion, cniVersion);
      assertMatch(ports.table, /tcp \. 8080 .*: 10\.0\.0\.2 \. 80/);
      await ports.succeed("DEL", { prevResult });
      assertEquals(ports.table, "");
    },
  }, allOf(needsRoot, needsRuleTools, needsInetRules));
}

function resultOf(cniVersion: string): Keys {
  const address = "10.0.0.2/24";
  if (cniVersion < "0.3.0") return { cniVersion, ip4: { ip: address } };
  const version = cniVersion < "1.0.0" ? { version: "4" } : {};
  return { cniVersion, ips: [{ address, ...version }] };
}
