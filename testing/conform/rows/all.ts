/**
 * All requirements, in the order of a report.
 *
 * @module
 */

import type { Requirement } from "../requirement.ts";
import { ADD_REQUIREMENTS } from "./add.ts";
import { CHECK_REQUIREMENTS } from "./check.ts";
import { DEL_REQUIREMENTS } from "./del.ts";
import { DELEGATE_REQUIREMENTS } from "./delegates.ts";
import {
  ERROR_REQUIREMENTS,
  INPUT_REQUIREMENTS,
  VERSION_REQUIREMENTS,
} from "./protocol.ts";
import { UPKEEP_REQUIREMENTS } from "./upkeep.ts";

/** All requirements by topic. */
export const TOPICS: readonly (readonly [string, readonly Requirement[]])[] = [
  ["Versions", VERSION_REQUIREMENTS],
  ["Errors", ERROR_REQUIREMENTS],
  ["Inputs", INPUT_REQUIREMENTS],
  ["ADD", ADD_REQUIREMENTS],
  ["DEL", DEL_REQUIREMENTS],
  ["CHECK", CHECK_REQUIREMENTS],
  ["GC and STATUS", UPKEEP_REQUIREMENTS],
  ["IPAM plugins", DELEGATE_REQUIREMENTS],
];

/** All requirements. */
export const REQUIREMENTS: readonly Requirement[] = TOPICS.flatMap(([, rows]) =>
  rows
);
