/**
 * Keys of all plugins that create a link on a link of the host.
 *
 * @module
 */

import type { KeyDescription } from "../../../metadata/plugin_keys.ts";
import { CONFLICT_CHECK_KEY } from "../address/conflict_check_key.ts";

/** The keys by name; `enabledad` is described as on all pages except macvlan's. */
export const ON_MASTER_KEYS = {
  "mtu": {
    text: "At most the master's. 0 means the master's.",
    type: "integer, bytes",
    default: "the master's",
  },
  "linkInContainer": {
    text: "The master is in the container, not on the host.",
    type: "boolean",
    default: "`false`",
    since: "1.3.0",
  },
  "enabledad": {
    text:
      "With `false`, IPv6 addresses are not [checked for duplicates](macvlan.md#duplicate-addresses).",
    type: "boolean",
    default: "the kernel's setting",
  },
  "conflictCheck": CONFLICT_CHECK_KEY,
} as const satisfies Readonly<Record<string, KeyDescription>>;

/**
 * The keys of the host's access; `hostAccess` is described as on all pages except
 * macvlan's.
 */
export const HOST_ACCESS_KEYS = {
  "hostAccess": {
    text:
      "The host and its containers reach each other ([how](macvlan.md#reach-the-containers-from-the-host)).",
    type: "boolean",
    default: "`false`",
  },
  "hostAddresses": {
    text:
      "Addresses of the host for its containers, without prefix lengths, different on each node.",
    type: "list of addresses",
    default: "the host's addresses on the master",
    example: ["192.168.1.5"],
    names: "address",
  },
} as const satisfies Readonly<Record<string, KeyDescription>>;

/** The key `dns` of plugins that copy it into the result. */
export const DNS_KEY: KeyDescription = {
  text: "`nameservers`, `domain`, `search` and `options` for the container.",
  type: "object",
  default: "from the IPAM plugin",
};
