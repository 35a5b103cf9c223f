/**
 * Where packets of containers end, as `cni doctor --pod` finds it.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";
import { findDifferences } from "./attachments.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { nameAttachment } from "./live.ts";
import { listChecked } from "./attachments.ts";
import type { Node, Patience } from "./node.ts";
import { listNotForwarded } from "./sysctls.ts";
import { STEPS, walkAll, type Way } from "./way/walk.ts";

/** Steps that other checks make for the whole node. */
const OF_OTHERS = ["forward-rules", "masquerade", "mtu"];
const OWN_STEPS = STEPS.filter(({ name }) => !OF_OTHERS.includes(name));
/** Steps after which the packet is beyond the container's own path. */
const SHARED = ["uplink", "uplink-gateway"];

/** Follows packets of containers that pass CHECK. */
async function findEnds(node: Node): Promise<Findings> {
  const findings = new Map<string, Finding>();
  const notForwarded = listNotForwarded(node);
  // A gateway that was silent once is not waited for again.
  const silent = new Set<string>();
  for (const attachment of listChecked(node)) {
    if ((await findDifferences(node, attachment)).length > 0) continue;
    const { netns } = attachment;
    const patience: Patience = silent.has(attachment.network)
      ? { attempts: 0, timeoutMs: 0 }
      : node.patience;
    const ways = await walkAll(node, netns, [attachment], patience, {
      steps: OWN_STEPS,
    })
      .catch(() => []);
    for (const way of ways) {
      const last = way.steps.at(-1);
      if (last?.step.endsWith("gateway") && last.state === "end") {
        silent.add(attachment.network);
      }
      const family = way.address.includes(":") ? 6 : 4;
      // Reported once, by ip-forward.
      if (way.endsAt === "forwarding" && notForwarded.has(family)) continue;
      // Reported once, by uplink.
      if (way.endsAt === "uplink" && !hasDefaultRoute(node, family)) continue;
      // Reported by rule-stops.
      if (last?.text.startsWith("the routing rule ")) continue;
      // Reported by rp-filter.
      if (last?.text.endsWith("rp_filter is strict")) continue;
      const found = describe(way, nameAttachment(attachment));
      if (found !== undefined) findings.set(found.message, found);
    }
  }
  return [...findings.values()];
}

function hasDefaultRoute({ host }: Node, family: IpFamily): boolean {
  return host.route.list({ family })
    .some(({ destination }) => destination.prefixLength === 0);
}

function describe(
  { steps, endsAt }: Way,
  subject: string,
): Finding | undefined {
  const last = steps.at(-1);
  if (last === undefined) return undefined;
  const { text, command, advice, look, takes } = last;
  if (takes !== undefined) {
    return warning(
      `${subject}: ${text}`,
      "they leave by the other interface, with an address that it may not have",
      {
        advice: "let one network only have a default route; sbr sends each " +
          "address's packets by its own interface",
        look,
        subject,
      },
    );
  }
  if (endsAt === undefined) return undefined;
  const isShared = SHARED.includes(endsAt);
  return error(
    isShared ? text : `packets of ${subject} end at ${endsAt}: ${text}`,
    isShared
      ? "containers reach nobody outside of the node"
      : "that container reaches nobody beyond it",
    { command, advice, look, subject },
  );
}

/** Checks of the paths of packets. */
export const PATH_CHECKS: readonly Check[] = [
  {
    code: "CNI0607",
    name: "packet-ends",
    finds:
      "packets of a container are dropped on the node, or leave through a different interface",
    page: {
      effect: "The container reaches nothing beyond that step.",
      cause:
        "A link is down, a bridge lost its address or a port, a rule or route was added, or forwarding is off for one interface.",
      look: "`cni doctor --pod NAME` shows the whole path.",
      fix: "Run the command of the finding.",
    },
    run: findEnds,
  },
];
