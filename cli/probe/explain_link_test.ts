import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { DoctorScene } from "../doctor/testing/scene.ts";
import { Ip } from "../../net/ip.ts";
import { explainLink, explainRedirect } from "./explain_link.ts";
import { explainReason } from "./reasons.ts";
import { originOfNode } from "./targets.ts";
import type { Trace } from "./trace.ts";
import type { NodeReader } from "../node/node_reader.ts";

rootTest(
  "explainRedirect() prints a command only for filters of a container's link",
  async () => {
    using scene = await DoctorScene.create();
    const end = scene.sh("ip -o link show master lan0").split(/[:@ ]+/)[1] ??
      "";
    scene.sh("ip link add odd0 type veth peer name odd1");
    scene.sh("ip link add cable0 up type veth peer name odd2");
    scene.sh("ip link set cable0 master lan0");
    for (const name of [end, "out0", "cable0"]) {
      scene.sh(
        `tc qdisc add dev ${name} ingress
         tc filter add dev ${name} ingress protocol all pref 7 u32 match u32 0 0 \\
           action mirred egress redirect dev odd0`,
      );
    }
    using node = scene.node();
    for (const name of [end, "out0", "cable0"]) {
      const { text, command, advice = "" } = explainRedirect(node, [name]) ??
        {};
      assertEquals(
        text,
        `a filter of "${name}" redirects what it receives to "odd0", which is down`,
      );
      const del = `tc filter del dev ${name} ingress pref 7`;
      assertEquals(command, name === end ? del : undefined);
      if (name !== end) assertStringIncludes(advice, `to remove it: ${del}`);
    }
  },
);

/** Traces a packet that came in over a link of the node, and was dropped there. */
function dropAfter(
  node: NodeReader,
  name: string,
  reason: string,
  links: readonly string[],
): Trace {
  const destination = Ip.parse("10.2.0.2");
  const from = originOfNode(node, destination);
  if (from === undefined) throw new Error("The node has no route");
  return {
    probe: { from, to: "db", destination, protocol: "ping" },
    answer: {
      isReached: false,
      error: undefined,
      icmp: undefined,
      milliseconds: 0,
    },
    places: [{ netns: node.host.netns, owner: undefined, links }],
    steps: [],
    packets: [{
      type: 0x0800,
      length: 84,
      mark: undefined,
      links: [{ isSent: false, name }],
      end: { location: "__dev_queue_xmit", reason },
    }],
    connection: undefined,
    counted: [],
  };
}

rootTest(
  "a filter explains a drop only on the link that dropped the packet",
  async () => {
    using scene = await DoctorScene.create();
    scene.sh(
      "for name in odd0 odd1; do ip link add $name up type bridge; done",
    );
    const filter = (name: string): string =>
      scene.sh(
        `tc qdisc add dev ${name} clsact
         tc filter add dev ${name} egress bpf da bytecode '1,6 0 0 2'`,
      );
    filter("odd0");
    using node = scene.node();
    const explain = (...links: string[]): ReturnType<typeof explainLink> =>
      explainLink(dropAfter(node, "out0", "TC_EGRESS", links), node);
    // The packet leaves over none of the links that have a filter.
    assertEquals(explain("odd1", "out0"), undefined);
    assertEquals(explain("odd0", "out0")?.isIntended, true);
    filter("odd1");
    // It left over one of two links.
    assertEquals(explain("odd0", "odd1", "out0")?.isIntended, undefined);
    // It does not leave over the link by which it came in.
    filter("out0");
    assertEquals(explain("odd0", "out0")?.isIntended, true);
  },
);

rootTest(
  "explain() gives advice on reverse path filtering in an unknown namespace",
  async () => {
    using scene = await DoctorScene.create();
    using node = scene.node();
    const explain = (name: string): ReturnType<typeof explainReason> =>
      explainReason(dropAfter(node, name, "IP_RPFILTER", []), node);
    const { command, advice } = explain("nosuch0") ?? {};
    assertEquals([command, advice], [
      undefined,
      "set rp_filter of that link to 2, in its namespace",
    ]);
    const known = explain("out0");
    assertEquals([known?.command, known?.advice], [
      "sysctl -w net/ipv4/conf/out0/rp_filter=2",
      undefined,
    ]);
  },
);
