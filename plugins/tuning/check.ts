/**
 * CHECK: compares the container with the configured settings.
 *
 * @module
 */

import { type Difference, Differences } from "../../cni/call/differences.ts";
import type { NetNs } from "../../ffi/netns.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { checkFailure, throwDifferences } from "../parts/link/check_link.ts";
import {
  keysOf,
  type LinkSettings,
  readSettings,
} from "../parts/link/link_settings.ts";
import { readValue, type Sysctl } from "./sysctls.ts";

/**
 * Checks kernel parameters, as far as they can be read, and the interface.
 *
 * @throws {CniError} 999 with all differences
 */
export async function checkSettings(
  sandbox: Rtnl,
  ifName: string,
  { sysctls, link }: {
    readonly sysctls: readonly Sysctl[];
    readonly link: LinkSettings;
  },
): Promise<void> {
  const differences = new Differences();
  await differences.collect(() => checkSysctls(sandbox.netns, sysctls));
  await differences.collect(() => checkTunedLink(sandbox, ifName, link));
  differences.throwAny();
}

function checkSysctls(
  netns: NetNs,
  sysctls: readonly Sysctl[],
): void {
  throwDifferences(sysctls.flatMap(({ key, value }): Difference[] => {
    const actual = readValue(netns, key);
    // The kernel separates several numbers by tabs.
    if (actual === undefined || words(actual) === words(value)) return [];
    return [{
      msg: `Error: Tuning configured value of /proc/sys/${key} is ${value}, ` +
        `current value is ${actual}`,
      expected: { kind: "sysctl", netns: netns.path, key, value },
    }];
  }));
}

function words(text: string): string {
  return text.trim().split(/\s+/).join(" ");
}

/** Names of the plugin's settings in error texts, which are the Go plugin's. */
const NAMES: Readonly<Partial<Record<keyof LinkSettings, string>>> = {
  mac: "Ethernet",
  promisc: "promiscuous mode",
  mtu: "MTU",
  allmulti: "all-multicast mode",
  txQLen: "Transmit Queue Length",
};

function checkTunedLink(
  { link }: Rtnl,
  ifName: string,
  wanted: LinkSettings,
): void {
  const found = link.find(ifName);
  if (found === undefined) {
    throw checkFailure(`Cannot find container link ${ifName}`);
  }
  const keys = keysOf(wanted);
  const actual = readSettings(found, keys);
  const different = keys.filter((key) => `${wanted[key]}` !== `${actual[key]}`);
  throwDifferences(different.map((key) => ({
    msg: `Error: Tuning configured ${NAMES[key]} of ${ifName} is ` +
      `${wanted[key]}, current value is ${actual[key]}`,
  })));
}
