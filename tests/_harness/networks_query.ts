/**
 * The input for resolving networks, in tests.
 *
 * @module
 */

import { decode } from "../../cni/json/json.ts";
import { multusSchema } from "../../plugins/multus/model/config.ts";
import type { NetworksQuery } from "../../plugins/multus/select/select.ts";

/**
 * Builds a query for a pod in namespace `test`.
 *
 * @param config The configuration of multus, before parsing
 */
export function networksQuery(
  config: object,
  more: Partial<NetworksQuery> = {},
): NetworksQuery {
  return {
    config: decode(multusSchema(), config, "network configuration"),
    cniVersion: "1.0.0",
    podNamespace: "test",
    log: { warn: () => {} },
    ...more,
  };
}
