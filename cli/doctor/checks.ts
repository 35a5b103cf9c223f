/**
 * All checks, in the order in which they run.
 *
 * @module
 */

import { ATTACHMENT_CHECKS } from "./attachments.ts";
import { CONFIGURATION_CHECKS } from "./configurations.ts";
import { DAEMON_CHECKS } from "./daemons.ts";
import type { Check } from "./finding.ts";
import { FORWARDING_CHECKS } from "./forwarding.ts";
import { KERNEL_CHECKS } from "./kernel.ts";
import { LEFTOVER_CHECKS } from "./leftovers.ts";
import { LIMIT_CHECKS } from "./limits.ts";
import { PLUGIN_CHECKS } from "./plugins.ts";
import { SERVICE_CHECKS } from "./services.ts";
import { SUBNET_CHECKS } from "./subnets.ts";
import { SYSCTL_CHECKS } from "./sysctls.ts";

/** The checks of `cni doctor`. */
export const CHECKS: readonly Check[] = [
  ...CONFIGURATION_CHECKS,
  ...PLUGIN_CHECKS,
  ...KERNEL_CHECKS,
  ...DAEMON_CHECKS,
  ...SERVICE_CHECKS,
  ...SUBNET_CHECKS,
  ...SYSCTL_CHECKS,
  ...FORWARDING_CHECKS,
  ...LIMIT_CHECKS,
  ...ATTACHMENT_CHECKS,
  ...LEFTOVER_CHECKS,
];
