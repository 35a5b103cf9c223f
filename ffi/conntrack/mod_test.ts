import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { connectOutside } from "../../tests/_harness/outside.ts";
import { UdpClient } from "../../plugins/portmap/testing/port_scene.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { Conntrack } from "./mod.ts";

/** Ports that lead elsewhere. */
const RULES = `table inet test {
  chain pre { type nat hook prerouting priority -100;
    udp dport 8080 redirect to :81
  }
}`;

rootTest(
  "Conntrack lists and deletes connections",
  needsInetRules,
  async () => {
    using hosts = TestHosts.create();
    const outside = connectOutside(hosts);
    runIn(hosts.host, "sh", "-c", 'echo "$1" | nft -f -', "sh", RULES);
    using _one = udp(outside, "192.0.2.1", 8080);
    using _two = udp(outside, "192.0.2.1", 8081);
    using _three = udp(outside, "2001:db8:ff::1", 8080);
    using conntrack = Conntrack.open(hosts.host.path);
    await eventually("all are tracked", () => conntrack.list().length >= 3);
    const ports = (filter: Parameters<Conntrack["list"]>[0]): string[] =>
      conntrack.list(filter).filter(({ protocol }) => protocol !== 58).map((
        { protocol, original, reply },
      ) =>
        `${protocol} ${original.destination} ${original.destinationPort} ${reply.sourcePort}`
      ).sort();
    const [one, two, three] = [
      "17 192.0.2.1 8080 81",
      "17 192.0.2.1 8081 8081",
      "17 2001:db8:ff::1 8080 81",
    ] as const;
    assertEquals(ports({}), [one, two, three]);
    assertEquals(ports({ family: 4 }), [one, two]);
    assertEquals(ports({ family: 4, protocol: 17 }), [one, two]);
    assertEquals(ports({ family: 4, protocol: 6 }), []);
    assertEquals(ports({ family: 6, protocol: 17 }), [three]);
    const port = { protocol: 17, destinationPort: 8080 };
    assertEquals(ports({ family: 4, ...port }), [one]);
    assertEquals(ports({ isDestinationChanged: true }), [one, three]);
    assertEquals(ports({ family: 6, isDestinationChanged: true, ...port }), [
      three,
    ]);
    const all = conntrack.list({ isDestinationChanged: true });
    assertEquals(conntrack.delete(all), [undefined, undefined]);
    assertEquals(ports({}), [two]);
    assertEquals(
      conntrack.delete(all).map((error) => error?.errno),
      ["ENOENT", "ENOENT"],
    );
    assertEquals(conntrack.delete([]), []);
    assertEquals(ports({}), [two]);
  },
);

function udp(...where: ConstructorParameters<typeof UdpClient>): UdpClient {
  const client = new UdpClient(...where);
  client.send();
  return client;
}
