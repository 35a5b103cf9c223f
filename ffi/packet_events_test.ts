import { assert, assertEquals, assertExists } from "@std/assert";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { runIn } from "../testing/ip_json.ts";
import { needsRuleTools } from "../tests/_harness/rules.ts";
import { inNetns } from "./netns.ts";
import { PacketEvents, parsePackets } from "./packet_events.ts";

const TEXT = `
    cni-7   [001] .....   1.000000: tracing_mark_write: 3
    cni-7   [001] b....   1.000010: net_dev_queue: dev=eth0 skbaddr=00a len=343
    cni-7   [001] ..s1.   1.000012: netif_receive_skb: dev=veth1 skbaddr=00a len=329
    cni-7   [001] ..s1.   1.000014: kfree_skb: skbaddr=00a rx_sk=0 protocol=2048 location=ip_rcv_finish_core+0x25b/0x470 reason: IP_RPFILTER
    cni-7   [001] ..s1.   1.000016: net_dev_queue: dev=eth0 skbaddr=00b len=42
    cni-7   [001] ..s1.   1.000018: netif_receive_skb: dev=br0 skbaddr=00b len=28
    cni-7   [001] ..s1.   1.000020: net_dev_queue: dev=br0 skbaddr=00b len=42
  other-8   [000] ..s1.   1.000022: kfree_skb: skbaddr=00b rx_sk=0 protocol=2054 location=br_dev_xmit+0x1/0x2 reason: NOT_SPECIFIED
  other-8   [000] ..s1.   1.000024: net_dev_queue: dev=eth9 skbaddr=00c len=343
  other-8   [000] ..s1.   1.900024: kfree_skb: skbaddr=00c rx_sk=0 protocol=2048 location=ip_forward+0x1/0x2 reason: PKT_TOO_BIG
`;

Deno.test("parsePackets() follows packets by their address, up to their end", () => {
  const shown = parsePackets(TEXT, { lengths: [329] }, 7).map((
    { mark, type, length, links, end },
  ) => [
    mark,
    type,
    length,
    links.map(({ isSent, name }) => `${isSent ? ">" : "<"}${name}`).join(" "),
    end && `${end.location} ${end.reason}`,
  ]);
  assertEquals(shown, [
    ["3", 0x0800, 329, ">eth0 <veth1", "ip_rcv_finish_core IP_RPFILTER"],
    ["3", 0x0806, 28, ">eth0 <br0", undefined],
    // The answer, in the same memory. Another CPU frees what comes later there.
    ["3", 0x0806, 28, ">br0", undefined],
    [undefined, 0, 329, ">eth9", undefined],
  ]);
});

function canRecord(): boolean {
  using events = PacketEvents.open({ lengths: [] });
  return events !== undefined;
}

rootTest(
  "a recording keeps a packet while others commit thousands of rules",
  allOf(
    needsRuleTools,
    ignoreUnless(
      ["taskset", "ping", "tc"].every(hasCommand),
      "needs taskset, ping and tc",
    ),
    ignoreUnless(canRecord(), "needs tracepoints"),
  ),
  () => {
    using hosts = TestHosts.create();
    const status = Deno.readTextFileSync("/proc/self/status");
    const [, cpu = ""] = /^Cpus_allowed_list:\s*(\d+)/m.exec(status) ?? [];
    const onOneCpu = (...words: string[]): boolean =>
      inNetns(
        hosts.host,
        () =>
          new Deno.Command("taskset", { args: ["-c", cpu, ...words] })
            .outputSync(),
      ).success;
    for (
      const words of [
        "ip link add d0 type veth peer name d1",
        "ip address add 10.9.0.1/24 dev d0",
        "ip link set d0 up",
        "ip link set d1 up",
        "ip neighbor add 10.9.0.2 lladdr 02:00:00:00:00:02 dev d0",
        "tc qdisc add dev d0 root tbf rate 1mbit burst 200 latency 25ms",
      ]
    ) {
      const [program = "", ...args] = words.split(" ");
      runIn(hosts.host, program, ...args);
    }
    const rules = `${hosts.directory}/rules`;
    const add = "add rule inet busy c counter\n".repeat(4000);
    Deno.writeTextFileSync(
      rules,
      `add table inet busy\nadd chain inet busy c\n${add}`,
    );
    // With the headers of ICMP and IPv4.
    const length = 900 + 8 + 20;
    using events = PacketEvents.open({ lengths: [length] });
    onOneCpu("ping", "-c1", "-W1", "-s900", "10.9.0.2");
    assert(onOneCpu("nft", "-f", rules));
    const found = events?.read().find((packet) => packet.length === length);
    assertEquals(found?.links, [{ isSent: true, name: "d0" }]);
    assertExists(found?.end);
  },
);
