/**
 * The directories that runtimes use, and those that are looked at.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { type Check, type Finding, type Findings, warning } from "./finding.ts";
import { listRuntimes } from "./limits.ts";
import type { Node } from "./node.ts";

/** Where a runtime names its directories; relative to its root. */
const FILES: Readonly<Record<string, readonly string[]>> = {
  containerd: ["etc/containerd/config.toml"],
  crio: ["etc/crio/crio.conf"],
};

/** The keys that name directories, of all releases. */
const CONF_DIR = /^\s*(?:conf_dir|network_dir)\s*=\s*["']([^"']+)["']/m;
const BIN_DIRS =
  /^\s*(?:bin_dirs?|plugin_dirs)\s*=\s*(\[[^\]]*\]|["'][^"']+["'])/m;

function findOtherDirectories(node: Node): Findings {
  const { proc, directories: { confDir, pluginDirs } } = node;
  return listRuntimes(node).flatMap(({ name, pid }) =>
    findFiles(`${proc}/${pid}`, name).flatMap((file) => {
      const path = `/${file}`;
      const text = ifPossible(() =>
        Deno.readTextFileSync(`${proc}/${pid}/root/${file}`)
      ) ?? "";
      const findings: Finding[] = [];
      const [, read] = CONF_DIR.exec(text) ?? [];
      if (read !== undefined && !isSame(read, [confDir])) {
        findings.push(warning(
          `${name} (${pid}) reads networks from "${read}", and not from ` +
            `"${confDir}"`,
          "it does not see the networks that are checked here",
          {
            advice: `correct "${path}" and restart ${name}, or check what it ` +
              `reads: cni doctor --conf-dir ${read}`,
            look: `grep -n conf_dir ${path}`,
          },
        ));
      }
      const [, list = ""] = BIN_DIRS.exec(text) ?? [];
      const used = [...list.matchAll(/["']([^"']+)["']/g)]
        .flatMap(([, one]) =>
          one ?? []
        );
      if (used.length > 0 && !used.some((one) => isSame(one, pluginDirs))) {
        findings.push(warning(
          `${name} (${pid}) runs plugins of "${
            used.join('", "')
          }", and not of ` +
            `"${pluginDirs.join('", "')}"`,
          "it does not find the plugins that are checked here",
          {
            advice: `correct "${path}" and restart ${name}, or check what it ` +
              `runs: cni doctor --cni-path ${used.join(":")}`,
            look: `grep -n bin_dir ${path}`,
          },
        ));
      }
      return findings;
    })
  );
}

/** Finds the configuration of a runtime: the one of its command line, if it names one. */
function findFiles(directory: string, name: string): readonly string[] {
  const line = ifPossible(() => Deno.readTextFileSync(`${directory}/cmdline`));
  const words = (line ?? "").split("\0");
  const at = words.findIndex((word) => word === "-c" || word === "--config");
  const named = at < 0
    ? words.find((word) => word.startsWith("--config="))?.slice(9)
    : words[at + 1];
  return named?.startsWith("/") ? [named.slice(1)] : FILES[name] ?? [];
}

function isSame(directory: string, others: readonly string[]): boolean {
  const plain = (path: string): string => path.replace(/\/+$/, "");
  return others.some((other) => plain(other) === plain(directory));
}

/** Checks of the directories of runtimes. */
export const RUNTIME_CHECKS: readonly Check[] = [
  {
    code: "CNI0307",
    name: "runtime-directories",
    finds: "the runtime uses other directories for networks or plugins",
    page: {
      effect: "The runtime does not see these networks or plugins.",
      cause: "Its configuration names others, such as those of k3s.",
      look:
        "`conf_dir` and `bin_dir` of /etc/containerd/config.toml; `network_dir` and `plugin_dirs` of CRI-O.",
      fix:
        "Correct them and restart the runtime, or give `cni` the runtime's: `--conf-dir`, `--cni-path`.",
    },
    run: findOtherDirectories,
  },
];
