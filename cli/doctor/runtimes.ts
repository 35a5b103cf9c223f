/**
 * The services that start plugins: their limits, and the directories that they use.
 *
 * @module
 */

import { basename, dirname, resolve } from "@std/path/posix";
import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { readStart } from "../../base/process/process_files.ts";
import { readUntrusted } from "../../ffi/file/untrusted_file.ts";
import { isTrusted } from "../../plugins/parts/evidence/processes.ts";

/** The main configuration of a runtime, and the directory of its drop-ins. */
const FILES: Readonly<
  Record<string, { readonly main: string; readonly dropIns?: string }>
> = {
  containerd: { main: "/etc/containerd/config.toml" },
  crio: { main: "/etc/crio/crio.conf", dropIns: "/etc/crio/crio.conf.d" },
};

/** The keys that name directories, of all releases. */
const CONF_DIR = /^\s*(?:conf_dir|network_dir)\s*=\s*["']([^"']+)["']/m;
const BIN_DIRS =
  /^\s*(?:bin_dirs?|plugin_dirs)\s*=\s*(\[[^\]]*\]|["'][^"']+["'])/m;
/** Source: containerd-config.toml(5) `imports`. */
const IMPORTS = /^\s*imports\s*=\s*(\[[^\]]*\])/m;

function findOtherDirectories(node: NodeReader): Findings {
  const { proc, directories: { confDir, pluginDirs } } = node;
  return listRuntimes(node).flatMap(({ name, pid }) => {
    const files = readFiles(`${proc}/${pid}`, name);
    // A later file overrides the values of earlier files.
    const findLast = (
      key: RegExp,
    ): { path: string; value: string } | undefined =>
      files.flatMap(({ path, text }) => {
        const [, value] = key.exec(text) ?? [];
        return value === undefined ? [] : [{ path, value }];
      }).at(-1);
    const findings: Finding[] = [];
    const conf = findLast(CONF_DIR);
    if (conf !== undefined && !isSame(conf.value, [confDir])) {
      findings.push(warning(
        `${name} (${pid}) reads networks from "${conf.value}", and not from ` +
          `"${confDir}"`,
        "it does not see the networks that are checked here",
        {
          advice: `correct "${conf.path}" and restart ${name}, or check what ` +
            shell`it reads: cni doctor --conf-dir ${conf.value}`,
          look: shell`grep -nE 'conf_dir|network_dir' ${conf.path}`,
        },
      ));
    }
    const bin = findLast(BIN_DIRS);
    const used = listStrings(bin?.value ?? "");
    if (
      bin !== undefined && used.length > 0 &&
      !used.some((one) => isSame(one, pluginDirs))
    ) {
      findings.push(warning(
        `${name} (${pid}) runs plugins from "${
          used.join('", "')
        }", and not from ` +
          `"${pluginDirs.join('", "')}"`,
        "it does not find the plugins that are checked here",
        {
          advice: `correct "${bin.path}" and restart ${name}, or check what ` +
            shell`it runs: cni doctor --cni-path ${used.join(":")}`,
          look: shell`grep -nE 'bin_dir|plugin_dirs' ${bin.path}`,
        },
      ));
    }
    return findings;
  });
}

/** A file of a runtime's configuration. */
interface ConfigurationFile {
  /** As the runtime names it. */
  readonly path: string;
  readonly text: string;
}

/**
 * Reads the configuration of a runtime in its order: the file of its command line, or the
 * usual file, then imports and drop-ins.
 *
 * @param directory The process in /proc
 */
function readFiles(directory: string, name: string): ConfigurationFile[] {
  const words = readStart(`${directory}/cmdline`).split("\0");
  const usual = FILES[name];
  const main = findOption(words, ["-c", "--config"]) ?? usual?.main;
  const dropIns = findOption(words, ["-d", "--config-dir"]) ?? usual?.dropIns;
  const root = `${directory}/root`;
  const pending = [
    ...main?.startsWith("/") ? [main] : [],
    ...usual?.dropIns && dropIns ? expand(root, `${dropIns}/*`) : [],
  ];
  const files = new Map<string, ConfigurationFile>();
  for (const path of pending) {
    const text = files.has(path)
      ? undefined
      : ifPossible(() => readUntrusted(root + path));
    if (text === undefined) continue;
    files.set(path, { path, text });
    const [, imports = ""] = IMPORTS.exec(text) ?? [];
    for (const pattern of listStrings(imports)) {
      pending.push(...expand(root, resolve(dirname(path), pattern)));
    }
  }
  return [...files.values()];
}

/** Finds the value of an option of a command line, in both of its forms. */
function findOption(
  words: readonly string[],
  names: readonly string[],
): string | undefined {
  const at = words.findIndex((word) => names.includes(word));
  if (at >= 0) return words[at + 1];
  const [, long] = names;
  return words.find((word) => word.startsWith(`${long}=`))
    ?.slice(`${long}=`.length);
}

/** Lists the files of a pattern whose last part might contain `*`, sorted by name. */
function expand(root: string, pattern: string): string[] {
  const directory = dirname(pattern);
  const parts = basename(pattern).split("*").map((part) => RegExp.escape(part));
  const name = new RegExp(`^${parts.join(".*")}$`);
  const entries = ifPossible(() => [...Deno.readDirSync(root + directory)]);
  return (entries ?? []).filter((entry) => name.test(entry.name))
    .map((entry) => `${directory}/${entry.name}`).sort();
}

function listStrings(list: string): string[] {
  return [...list.matchAll(/["']([^"']+)["']/g)]
    .flatMap(([, one]) => one ?? []);
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
    finds: "the runtime uses different directories for networks or plugins",
    effect: "The runtime does not see these networks or plugins.",
    cause:
      "Its configuration names different directories, such as the directories of k3s.",
    howToInspect:
      "`conf_dir` and `bin_dir` of /etc/containerd/config.toml and its `imports`; `network_dir` and `plugin_dirs` of CRI-O, including /etc/crio/crio.conf.d.",
    howToFix:
      "Correct them and restart the runtime, or pass the runtime's directories to `cni`: `--conf-dir`, `--cni-path`.",
    run: findOtherDirectories,
  },
];

/** Programs that start plugins, as the kernel names them. */
const RUNTIMES = [
  "containerd",
  "crio",
  "dockerd",
  "cri-dockerd",
  "k3s-server",
  "k3s-agent",
  "nomad",
];

const KIB = 1024, MIB = KIB * 1024, GIB = MIB * 1024;

/** A limit that is enough for one `bridge` with `host-local`; see docs/install.md. */
interface Limit {
  /** In /proc/PID/limits. */
  readonly name: string;
  /** In a unit of systemd. */
  readonly setting: string;
  readonly least: number;
  readonly unit: string;
}

const LIMITS: readonly Limit[] = [
  {
    name: "Max address space",
    setting: "LimitAS",
    least: 34 * GIB,
    unit: "bytes",
  },
  {
    name: "Max data size",
    setting: "LimitDATA",
    least: 600 * 1000 * 1000,
    unit: "bytes",
  },
  {
    name: "Max stack size",
    setting: "LimitSTACK",
    least: 512 * KIB,
    unit: "bytes",
  },
  { name: "Max open files", setting: "LimitNOFILE", least: 20, unit: "files" },
];

/** The least memory of a control group. */
const LEAST_MEMORY = 16 * MIB;

/** A running service that starts plugins. */
interface Service {
  readonly pid: number;
  readonly name: string;
  /** The unit of systemd, such as `docker.service`; the name without a unit. */
  readonly unit: string;
}

/**
 * Lists the running services of root or of this user that start plugins: any user can name
 * a process. One in another network namespace is of another node, such as one that is a
 * container.
 */
export function listRuntimes(
  { proc, hostNetns }: Pick<NodeReader, "proc" | "hostNetns">,
): Service[] {
  const own = findFileId(hostNetns);
  const entries = ifPossible(() => [...Deno.readDirSync(proc)]) ?? [];
  return entries.filter(({ name }) => /^\d+$/.test(name)).flatMap(
    ({ name: pid }) => {
      const name = readStart(`${proc}/${pid}/comm`).trim();
      if (!RUNTIMES.includes(name)) return [];
      if (!isTrusted(readStart(`${proc}/${pid}/status`))) return [];
      // Only root may look.
      const netns = findFileId(`${proc}/${pid}/ns/net`) ?? own;
      if (netns !== own) return [];
      const groups = readStart(`${proc}/${pid}/cgroup`);
      // The first one might be the service manager of a user.
      const [, unit = name] = /.*\/([^/\n]+\.service)(?:\/|$)/m.exec(groups) ??
        [];
      return [{ pid: Number(pid), name, unit }];
    },
  );
}

/** Finds limits of running services that are too low for plugins. */
export function findLowLimits(
  node: Pick<NodeReader, "proc" | "hostNetns">,
): Finding[] {
  return listRuntimes(node).flatMap((service) => [
    ...findProcessLimits(node, service),
    ...findMemoryLimit(node, service),
  ]);
}

function findProcessLimits(
  { proc }: Pick<NodeReader, "proc">,
  { pid, name, unit }: Service,
): Finding[] {
  const lines = readStart(`${proc}/${pid}/limits`).split("\n");
  return LIMITS.flatMap((limit) => {
    const line = lines.find((line) => line.startsWith(limit.name));
    const soft = line?.slice(limit.name.length).trim().split(/\s+/)[0];
    const value = Number(soft);
    if (soft === undefined || Number.isNaN(value) || value >= limit.least) {
      return [];
    }
    return [
      error(
        `${limit.setting} of ${name} is ${value} ${limit.unit}, but plugins ` +
          `need ${limit.least}`,
        "this project's plugins crash or fail when that service starts them",
        {
          advice: `remove ${limit.setting} from the unit, and restart ${name}`,
          look: shell`systemctl cat ${unit}`,
        },
      ),
    ];
  });
}

function findMemoryLimit(
  { proc }: Pick<NodeReader, "proc">,
  { pid, name, unit }: Service,
): Finding[] {
  const group = readStart(`${proc}/${pid}/cgroup`)
    .split("\n").find((line) => line.startsWith("0::"))?.slice(3);
  if (group === undefined) return [];
  const path = `/sys/fs/cgroup${group}/memory.max`;
  const device = ifPossible(() => Deno.statSync("/sys/fs/cgroup"))?.dev;
  const text =
    ifPossible(() => readUntrusted(`${proc}/${pid}/root${path}`, device)) ||
    ifPossible(() => readUntrusted(path, device));
  const value = Number(text?.trim() || "max");
  if (Number.isNaN(value) || value >= LEAST_MEMORY) return [];
  return [
    error(
      `MemoryMax of ${name} is ${value} bytes, but one plugin needs ${LEAST_MEMORY}`,
      "the kernel kills plugins while they attach a container",
      { command: shell`systemctl set-property ${unit} MemoryMax=infinity` },
    ),
  ];
}

/** Checks of limits. */
export const LIMIT_CHECKS: readonly Check[] = [
  {
    code: "CNI0306",
    name: "service-limit",
    finds: "a limit of the runtime's service is too low for plugins",
    effect:
      "This project's plugins crash or fail when that service starts them.",
    cause: "A unit or a drop-in of the runtime sets the limit.",
    howToInspect: "`systemctl show SERVICE`, and `/proc/PID/limits`.",
    howToFix:
      "`systemctl edit SERVICE`, remove the limit, and restart the service.",
    run: findLowLimits,
  },
];
