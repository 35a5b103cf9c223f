/**
 * The files in CNI_PATH.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { dirname } from "@std/path/posix";
import { readFormat } from "../../cni/invoke/program_format.ts";
import { ifPossible, isDirectory } from "../../base/files/io.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { findMachine } from "../node/elf_file.ts";
import { type CniPathFile, findMissing } from "../node/plugin_file.ts";
import {
  type Check,
  error,
  type Findings,
  listed,
  type More,
  warning,
} from "./finding.ts";
import { type NodeReader, typesOf } from "../node/node_reader.ts";
import { listNoExec } from "./writable.ts";

/** Lists the networks that run a plugin type, as a sentence names them. */
function usersOf({ networks }: NodeReader, type: string): string[] {
  return networks.filter((network) => typesOf(network).includes(type))
    .map(({ name }) => `"${name}"`);
}

function findMissingDirectories(node: NodeReader): Findings {
  const { pluginDirs } = node.directories;
  const missing = pluginDirs.filter((directory) => !isDirectory(directory));
  const make = missing.length === pluginDirs.length ? error : warning;
  return missing.map((directory) =>
    make(
      `the plugin directory "${directory}" does not exist`,
      missing.length === pluginDirs.length
        ? "no container can be attached"
        : "plugins are searched in the other directories only",
      {
        command: node.cni(shell`install ${directory}`, INSTALL_FLAGS),
      },
    )
  );
}

/** The directories that `cni install` has flags for. */
const INSTALL_FLAGS = ["conf-dir", "cache-dir"] as const;

function findMissingPlugins(node: NodeReader): Findings {
  const { pluginDirs } = node.directories;
  const types = [...new Set(node.networks.flatMap(typesOf))];
  return types.flatMap((type) => {
    const problem = findMissing(type, pluginDirs);
    if (problem === undefined) return [];
    const users = listed(usersOf(node, type));
    const message = `${users} needs "${type}": ${problem}`;
    const effect = "containers of that network do not start";
    const directory = pluginDirs[0] ?? "/opt/cni/bin";
    if (pluginNames.includes(type)) {
      const command = node.cni(
        shell`install ${directory} --only ${type}`,
        INSTALL_FLAGS,
      );
      return [error(message, effect, { command })];
    }
    const { path } = node.networks.find((network) =>
      typesOf(network).includes(type)
    ) ?? {};
    return [
      error(
        message,
        `${effect}, and "cni install" does not include such a plugin`,
        {
          advice: `correct the type, or install that program in "${directory}"`,
          look: node.cni(shell`validate ${path}`),
        },
      ),
    ];
  });
}

/** The reason why a file cannot be started; each has its check. */
type Defect = "machine" | "mode" | "other";

function defectOf({ problem, path }: CniPathFile): Defect | undefined {
  if (problem === undefined) return undefined;
  const mode = ifPossible(() => Deno.statSync(path).mode) ?? 0o111;
  if ((mode & 0o111) === 0) return "mode";
  return ifPossible(() => readFormat(path)) === "foreign" ? "machine" : "other";
}

const OWN_MACHINE = findMachine("/proc/self/exe") ?? Deno.build.arch;

/** Finds files that cannot be started for a reason. */
async function findUnusable(
  node: NodeReader,
  defect: Defect,
): Promise<Findings> {
  // Reported once, by plugin-noexec.
  const noExec = [...listNoExec(node).values()].flat();
  return (await node.plugins()).filter((file) =>
    file.shadowedBy === undefined && defectOf(file) === defect &&
    !noExec.includes(dirname(file.path))
  ).map((file) => {
    const users = usersOf(node, file.name);
    const make = users.length === 0 ? warning : error;
    const { text, ...help } = describe(node, file, defect);
    return make(
      `"${file.path}" ${text}`,
      users.length === 0
        ? "no network needs it yet"
        : `containers of ${listed(users)} do not start`,
      help,
    );
  });
}

function describe(
  node: NodeReader,
  { path, name, problem }: CniPathFile,
  defect: Defect,
): { readonly text: string } & More {
  switch (defect) {
    case "machine":
      return {
        text: `is for ${findMachine(path)}, but this machine is ${OWN_MACHINE}`,
        advice: "install the archive for this machine",
        look: shell`file ${path}`,
      };
    case "mode": {
      const fix = {
        did: `made "${path}" executable`,
        run: () => Deno.chmodSync(path, 0o755),
      };
      return {
        text: "is not executable",
        command: shell`chmod 755 ${path}`,
        ...usersOf(node, name).length > 0 && { fix },
      };
    }
    case "other":
      return {
        text: `does not work: ${problem}`,
        advice: "install it again",
        look: node.cni("plugins"),
      };
  }
}

/** Finds plugins of this project that a plugin of the same name precedes in CNI_PATH. */
async function findShadowed(node: NodeReader): Promise<Findings> {
  const files = await node.plugins();
  return files.flatMap(({ name, path, origin, shadowedBy }) => {
    const first = files.find((other) => other.path === shadowedBy);
    const users = usersOf(node, name);
    if (first === undefined || users.length === 0) return [];
    if (origin === "other" || first.origin !== "other") return [];
    return [
      warning(
        `"${path}" is not used: "${first.path}" from another project comes first`,
        `${listed(users)} runs the other one`,
        {
          advice: "change the order of CNI_PATH, or move the other plugin away",
          look: node.cni("plugins"),
        },
      ),
    ];
  });
}

/** Checks of plugins. */
export const PLUGIN_CHECKS: readonly Check[] = [
  {
    code: "CNI0201",
    name: "plugin-directory",
    finds: "a directory of CNI_PATH does not exist",
    effect: "Plugins are found elsewhere, or not at all.",
    cause: "Plugins were not installed, or are elsewhere.",
    howToInspect: "The runtime's `bin_dir`, and `ls` of the directory.",
    howToFix: "`cni install DIRECTORY`.",
    run: findMissingDirectories,
  },
  {
    code: "CNI0202",
    name: "plugin-missing",
    finds: "a network needs a plugin that is not installed",
    effect: "Containers of that network do not start.",
    cause: "It was not installed or was removed, or its type is misspelt.",
    howToInspect: "`cni plugins`.",
    howToFix:
      "`cni install DIRECTORY --only TYPE`, or install the third-party plugin.",
    run: findMissingPlugins,
  },
  {
    code: "CNI0203",
    name: "plugin-machine",
    finds: "a plugin is built for a different architecture",
    effect: "Containers of the networks that need it do not start.",
    cause: "The archive is for a different architecture.",
    howToInspect: "`file PATH`.",
    howToFix: "Install the archive for this architecture.",
    run: (node) => findUnusable(node, "machine"),
  },
  {
    code: "CNI0204",
    name: "plugin-mode",
    finds: "a plugin is not executable",
    effect: "Containers of the networks that need it do not start.",
    cause: "A copy lost its mode.",
    howToInspect: "`ls -l PATH`.",
    howToFix: "`chmod 755 PATH`, or `cni doctor --fix`.",
    run: (node) => findUnusable(node, "mode"),
  },
  {
    code: "CNI0205",
    name: "plugin-broken",
    finds:
      "a plugin is truncated, is a dangling link, or does not print its versions",
    effect: "Containers of the networks that need it do not start.",
    cause:
      "A copy was truncated, a link leads nowhere, or a library or interpreter is missing.",
    howToInspect: "Run it with `CNI_COMMAND=VERSION`.",
    howToFix: "Install it again.",
    run: (node) => findUnusable(node, "other"),
  },
  {
    code: "CNI0206",
    name: "plugin-shadowed",
    finds: "a third-party plugin comes before this project's plugin",
    effect: "The third-party plugin runs, and might behave differently.",
    cause: "Two directories of CNI_PATH contain the plugin.",
    howToInspect: "`cni plugins`.",
    howToFix: "Change the order in CNI_PATH, or remove one of them.",
    run: findShadowed,
  },
];
