import { assertEquals, assertMatch } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { DoctorScene } from "../doctor/testing/scene.ts";
import { explainLoss, explainPolicy } from "./explain.ts";
import { originOfNode } from "./targets.ts";
import type { CountedRule } from "./legacy_rules.ts";
import type { Trace } from "./trace.ts";

rootTest(
  "explainLoss() blames no rule for open ports if no packet was recorded",
  async () => {
    using scene = await DoctorScene.create();
    using node = scene.node();
    const destination = Ip.parse("10.2.0.2");
    const from = originOfNode(node, destination);
    if (from === undefined) throw new Error("The node has no route");
    const traceWith = (
      isSelective: boolean,
      packets: Trace["packets"],
      more: Partial<CountedRule> = {},
    ): Trace => {
      const rule: CountedRule = {
        netns: node.host.netns.path,
        program: "iptables-legacy",
        table: "filter",
        text: "-P INPUT DROP",
        hooks: ["INPUT"],
        isSelective,
        number: undefined,
        packets: 1,
        ...more,
      };
      return {
        probe: { from, to: "db", destination, protocol: "ping" },
        answer: {
          isReached: false,
          error: undefined,
          icmp: undefined,
          milliseconds: 0,
        },
        places: [{ netns: node.host.netns, owner: undefined, links: [] }],
        steps: [],
        packets,
        connection: undefined,
        counted: [rule],
      };
    };
    const explainWith = (
      isSelective: boolean,
      packets: Trace["packets"],
    ): ReturnType<typeof explainLoss> =>
      explainLoss(
        traceWith(isSelective, packets),
        node,
        Cidr.parse("10.2.0.0/24"),
      );
    const dropped = [{
      type: 0x0800,
      length: 84,
      mark: undefined,
      links: [],
      end: { location: "nf_hook_slow", reason: "NETFILTER_DROP" },
    }];
    assertEquals(explainWith(true, []), undefined);
    const { isIntended, command } = explainWith(true, dropped) ?? {};
    assertEquals([isIntended, command], [true, undefined]);
    // Without a rule that accepts packets, the node is locked out.
    assertEquals(
      explainWith(false, dropped)?.command,
      "iptables-legacy -A INPUT -s 10.2.0.0/24 -j ACCEPT",
    );
    const { command: unsure, advice = "" } = explainWith(false, []) ?? {};
    assertEquals(unsure, undefined);
    assertMatch(advice, /^check whether its counter grows/);
    // A NetworkPolicy explains the loss if nothing else does.
    const policy = { text: "-A cali-fw-web -j DROP", hooks: ["FORWARD"] };
    const rows = [[[], true], [dropped, undefined]] as const;
    for (const [packets, isIntended] of rows) {
      const trace = traceWith(true, packets, policy);
      assertEquals(explainPolicy(trace, node)?.isIntended, isIntended);
    }
    assertEquals(explainPolicy(traceWith(true, []), node), undefined);
  },
);
