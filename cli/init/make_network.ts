/**
 * A first network, from a few choices.
 *
 * @module
 */

import type { JsonObject } from "../../cni/json.ts";
import type { Cidr } from "../../net/cidr.ts";

/** The types that can be made. */
export const TYPES = ["bridge", "ptp", "macvlan", "ipvlan", "vlan"] as const;

/** One of {@linkcode TYPES}. */
export type Type = typeof TYPES[number];

/** Reports whether a plugin joins a link of the host. */
export function hasMaster(type: Type): boolean {
  return type !== "bridge" && type !== "ptp";
}

/** The choices. */
export interface Choices {
  readonly name: string;
  readonly type: Type;
  readonly cniVersion: string;
  /** One of each family. */
  readonly subnets: readonly Cidr[];
  /** Only for types with a master. */
  readonly master: string | undefined;
  /** Only for vlan. */
  readonly vlanId: number | undefined;
  readonly hasPortmap: boolean;
  readonly hasBandwidth: boolean;
}

/** Longest name of a link, in bytes. */
const LINK_NAME = 15;

/** Builds a list of plugins. */
export function makeNetwork(choices: Choices): JsonObject {
  const { name, type, cniVersion, subnets, master, vlanId } = choices;
  const bridge = `cni-${name}`.replace(/[^\w.-]/g, "");
  const own: Record<Type, JsonObject> = {
    bridge: {
      bridge: bridge.length <= LINK_NAME ? bridge : "cni0",
      isDefaultGateway: true,
      ipMasq: true,
      hairpinMode: true,
    },
    ptp: { ipMasq: true },
    macvlan: { mode: "bridge" },
    ipvlan: { mode: "l2" },
    vlan: {},
  };
  const ipam = {
    type: "host-local",
    ranges: subnets.map((subnet) => [{ subnet: `${subnet}` }]),
    // A bridge adds them itself.
    ...type === "bridge" ? {} : {
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
        type,
        ...own[type],
        ...master === undefined ? {} : { master },
        ...vlanId === undefined ? {} : { vlanId },
        ipam,
      },
      ...choices.hasPortmap
        ? [{ type: "portmap", capabilities: { portMappings: true } }]
        : [],
      ...choices.hasBandwidth
        ? [{ type: "bandwidth", capabilities: { bandwidth: true } }]
        : [],
    ],
  };
}
