/**
 * Programs that plugins run.
 *
 * @module
 */

import { valueOf } from "../../cni/tools/about.ts";
import type { IpFamily } from "../../net/ip.ts";
import { FACTS } from "../../plugins/lists/facts.ts";
import { findIptables } from "../../plugins/parts/firewall/iptables/find.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  listed,
} from "./finding.ts";
import type { ConfiguredNetwork, Node } from "./node.ts";
import { listSubnets } from "./routed.ts";

/** Reports whether a network's plugins run iptables if the host has it. */
function runsIptables({ plugins }: ConfiguredNetwork): boolean {
  return plugins.some(({ type, document }) =>
    FACTS.get(type)?.runsIptables?.(document) === true ||
    valueOf(document, "ipMasq") === true &&
      valueOf(document, "ipMasqBackend") !== "nftables"
  );
}

function findBrokenIptables(node: Node): Findings {
  const users = node.networks.filter(runsIptables);
  if (users.length === 0) return [];
  const hasIpv6 = users.some(({ plugins }) =>
    plugins.some((conf) => listSubnets(conf).some(({ family }) => family === 6))
  );
  const families: IpFamily[] = hasIpv6 ? [4, 6] : [4];
  const names = listed(users.map(({ name }) => `"${name}"`));
  const findings: Finding[] = [];
  for (const family of families) {
    // Without any, plugins use nftables, or STATUS says what is missing.
    const path = findPath(family, node);
    const problem = path === undefined ? undefined : tryProgram(path);
    if (path === undefined || problem === undefined) continue;
    const isMode = problem === NO_MODE;
    findings.push(error(
      `"${path}" cannot be run: ${problem}`,
      `ADD of ${names} fails, because plugins run it for their rules`,
      isMode ? { command: `chmod 755 ${path}` } : {
        advice: "install iptables again, or remove it: plugins then use " +
          "nftables",
        look: `${path} --version`,
      },
    ));
  }
  return findings;
}

function findPath(family: IpFamily, { env }: Node): string | undefined {
  try {
    return findIptables(family, env["PATH"])?.path;
  } catch {
    return undefined; // A dangling link.
  }
}

const NO_MODE = "it is not executable";

/** Runs a program. Returns why that fails. */
function tryProgram(path: string): string | undefined {
  try {
    const { mode } = Deno.statSync(path);
    if (((mode ?? 0) & 0o111) === 0) return NO_MODE;
    const { success, code, stderr } = new Deno.Command(path, {
      args: ["--version"],
      stdin: "null",
    }).outputSync();
    if (success) return undefined;
    const [line = ""] = new TextDecoder().decode(stderr).split("\n");
    return line || `exit code ${code}`;
  } catch (cause) {
    return formatFailureText(cause);
  }
}

/** Checks of programs. */
export const PROGRAM_CHECKS: readonly Check[] = [
  {
    code: "CNI0209",
    name: "iptables-broken",
    finds: "iptables is installed, and cannot be run",
    page: {
      effect: "ADD fails: masquerading, portmap and firewall run it.",
      cause:
        "A file of another machine, or without execute permission or its libraries.",
      look: "`iptables --version`, and `file -L` of its path.",
      fix: "Install iptables again, or remove it: plugins then use nftables.",
    },
    run: findBrokenIptables,
  },
];
