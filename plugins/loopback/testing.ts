/**
 * The scene for tests of loopback.
 *
 * @module
 */

import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/**
 * Creates a host with a sandbox whose loopback is down, which is the kernel's
 * default.
 */
export function createHosts(): TestHosts {
  const hosts = TestHosts.create();
  runIn(hosts.sandbox, "ip", "link", "set", "lo", "down");
  return hosts;
}

/** Reports whether the sandbox's loopback is up. */
export function isUp({ sandbox }: TestHosts): boolean {
  return ipJson(sandbox, "link", "show", "lo")[0].flags.includes("UP");
}
