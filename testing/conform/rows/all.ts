/**
 * All demands, in the order of a report.
 *
 * @module
 */

import type { Demand } from "../demand.ts";
import { ADD_DEMANDS } from "./add.ts";
import { CHECK_DEMANDS } from "./check.ts";
import { DEL_DEMANDS } from "./del.ts";
import { DELEGATE_DEMANDS } from "./delegates.ts";
import { ERROR_DEMANDS, INPUT_DEMANDS, VERSION_DEMANDS } from "./protocol.ts";
import { UPKEEP_DEMANDS } from "./upkeep.ts";

/** All demands by topic. */
export const TOPICS: readonly (readonly [string, readonly Demand[]])[] = [
  ["Versions", VERSION_DEMANDS],
  ["Errors", ERROR_DEMANDS],
  ["Inputs", INPUT_DEMANDS],
  ["ADD", ADD_DEMANDS],
  ["DEL", DEL_DEMANDS],
  ["CHECK", CHECK_DEMANDS],
  ["GC and STATUS", UPKEEP_DEMANDS],
  ["IPAM plugins", DELEGATE_DEMANDS],
];

/** All demands. */
export const DEMANDS: readonly Demand[] = TOPICS.flatMap(([, rows]) => rows);
