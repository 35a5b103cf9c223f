/**
 * The setting `apiTimeoutSeconds` of plugins that ask an API server.
 *
 * @module
 */

import * as z from "zod/mini";
import { once } from "../base/json/json.ts";

/** Below the time limit of the kubelet and of runtimes, which is 220 s. */
const MAX_SECONDS = 219;

/** Builds the schema: seconds, more than 0 and at most 219. */
export const apiTimeoutSchema: () => z.ZodMiniNumber = once(() =>
  z.number().check(z.positive(), z.maximum(MAX_SECONDS))
);
