/**
 * All checks, in the order in which they run.
 *
 * @module
 */

import { ATTACHMENT_CHECKS } from "./attachments.ts";
import { CLAIM_CHECKS } from "./claims.ts";
import { CONFIGURATION_CHECKS } from "./configurations.ts";
import { DAEMON_CHECKS } from "./daemons.ts";
import type { Check } from "./finding.ts";
import { KERNEL_CHECKS, PROGRAM_CHECKS } from "./kernel.ts";
import { ORPHAN_CHECKS } from "./orphans.ts";
import { LIMIT_CHECKS, RUNTIME_CHECKS } from "./runtimes.ts";
import { LINK_CHECKS } from "./links.ts";
import { MISSING_NETWORKS_CHECKS } from "./missing_networks.ts";
import { NAMESPACE_CHECKS } from "./namespaces.ts";
import { NEIGHBOR_CHECKS } from "./neighbors.ts";
import { NETWORK_ADDRESS_CHECKS } from "./network_addresses.ts";
import { PACKET_CHECKS } from "./packets.ts";
import { PLUGIN_CHECKS } from "./plugins.ts";
import { POOL_CHECKS } from "./pools.ts";
import { PORT_CHECKS } from "./ports.ts";
import { SERVICE_CHECKS } from "./services.ts";
import { STORAGE_CHECKS } from "./storage.ts";
import { SUBNET_CHECKS } from "./subnets.ts";
import { SYSCTL_CHECKS } from "./sysctls.ts";
import { UPLINK_CHECKS } from "./uplinks.ts";
import { WRITABLE_CHECKS } from "./writable.ts";

/** The checks of `cni doctor`. */
export const CHECKS: readonly Check[] = [
  ...CONFIGURATION_CHECKS,
  ...PLUGIN_CHECKS,
  ...WRITABLE_CHECKS,
  ...PROGRAM_CHECKS,
  ...KERNEL_CHECKS,
  ...STORAGE_CHECKS,
  ...LIMIT_CHECKS,
  ...RUNTIME_CHECKS,
  ...DAEMON_CHECKS,
  ...SERVICE_CHECKS,
  ...LINK_CHECKS,
  ...SUBNET_CHECKS,
  ...POOL_CHECKS,
  ...NETWORK_ADDRESS_CHECKS,
  ...NEIGHBOR_CHECKS,
  ...PORT_CHECKS,
  ...SYSCTL_CHECKS,
  ...UPLINK_CHECKS,
  ...ATTACHMENT_CHECKS,
  ...PACKET_CHECKS,
  ...NAMESPACE_CHECKS,
  ...CLAIM_CHECKS,
  ...MISSING_NETWORKS_CHECKS,
  ...ORPHAN_CHECKS,
];
