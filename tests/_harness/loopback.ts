/**
 * The scene of tests of loopback.
 *
 * @module
 */

import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/** Makes a host whose sandbox has its loopback as the kernel makes it: down. */
export function createHosts(): TestHosts {
  const hosts = TestHosts.create();
  runIn(hosts.sandbox, "ip", "link", "set", "lo", "down");
  return hosts;
}

/** Says whether the sandbox's loopback is up. */
export function isUp({ sandbox }: TestHosts): boolean {
  return ipJson(sandbox, "link", "show", "lo")[0].flags.includes("UP");
}
