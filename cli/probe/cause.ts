/**
 * Why packets are lost, and what ends that.
 *
 * @module
 */

import type { Cidr } from "../../net/cidr.ts";
import type { More } from "../doctor/finding.ts";
import type { Node } from "../doctor/node.ts";

/** Why packets are lost. */
export interface Cause extends Omit<More, "about" | "fix" | "subject"> {
  /** The check that the cause belongs to, such as `rule-drops`. */
  readonly check: string;
  /** The evidence; one sentence without a full stop. */
  readonly text: string;
}

/** What an explanation may look at. */
export interface Scene {
  readonly node: Node;
  /** The subnet of the container. */
  readonly subnet: Cidr;
}
