/**
 * The configuration keys of plugins that masquerade.
 *
 * @module
 */

import * as z from "zod/mini";
import { once } from "../../../cni/types.ts";

/** Reads `ipMasqBackend`: who keeps the rules. */
export const masqueradeBackendSchema = once(() =>
  z.enum(["nftables", "iptables"])
);
