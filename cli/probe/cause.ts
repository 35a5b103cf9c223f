/**
 * The causes of lost packets.
 *
 * @module
 */

import type { Cidr } from "../../net/cidr.ts";
import type { More } from "../doctor/finding.ts";
import type { Node } from "../doctor/node.ts";

/** The cause of a loss. */
export interface Cause extends Omit<More, "about" | "fix" | "subject"> {
  /** The check that the cause belongs to, such as `rule-drops`. */
  readonly check: string;
  /** The evidence; one sentence without a full stop. */
  readonly text: string;
}

/** The node and the container of an explanation. */
export interface Scene {
  readonly node: Node;
  /** The subnet of the container. */
  readonly subnet: Cidr;
}
