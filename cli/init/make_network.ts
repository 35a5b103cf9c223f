/**
 * A first network, from a few choices.
 *
 * @module
 */

import type { PluginMetadata } from "../../metadata/plugin_metadata.ts";
import type { JsonObject } from "../../base/json/json.ts";
import type { Cidr } from "../../net/cidr.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";

/** The metadata of the plugins that can be the first of a network. */
export const STARTERS: readonly PluginMetadata[] = [...METADATA.values()]
  .filter(({ kind, start }) => kind === "interface" && start !== undefined)
  .toSorted((one, other) => rankOf(one) - rankOf(other));

function rankOf({ start }: PluginMetadata): number {
  return start?.rank ?? Infinity;
}

/** The choices. */
export interface Choices {
  readonly name: string;
  /** One of {@linkcode STARTERS}. */
  readonly metadata: PluginMetadata;
  readonly cniVersion: string;
  /** One of each family. */
  readonly subnets: readonly Cidr[];
  /** Only for plugins that request it. */
  readonly master: string | undefined;
  /** Only for plugins that request it. */
  readonly vlanId: number | undefined;
  /** Types of plugins that come after it. */
  readonly chained: readonly string[];
}

/** Builds a list of plugins. */
export function makeNetwork(choices: Choices): JsonObject {
  const { name, metadata, cniVersion, subnets, master, vlanId } = choices;
  const ipam = {
    type: "host-local",
    ranges: subnets.map((subnet) => [{ subnet: `${subnet}` }]),
    ...metadata.start?.addsRoutes ? {} : {
      routes: subnets.map(({ family }) => ({
        dst: family === 4 ? "0.0.0.0/0" : "::/0",
      })),
    },
  };
  return {
    cniVersion,
    name,
    plugins: [
      {
        type: metadata.type,
        ...metadata.start?.keys(name),
        ...master === undefined ? {} : { master },
        ...vlanId === undefined ? {} : { vlanId },
        ipam,
      },
      ...choices.chained.map((type) => ({
        type,
        ...METADATA.get(type)?.start?.keys(name),
      })),
    ],
  };
}
