/**
 * Files that any user may write, and programs that must not be executed.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import { findMount, readFileSystem } from "../../ffi/file/file_system.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import type { NodeReader } from "../node/node_reader.ts";

/** Source: include/uapi/linux/stat.h. */
const S_IWOTH = 0o002;

/** Finds files and directories that any user may write. */
function findWritable(paths: readonly string[]): Findings {
  return [...new Set(paths)].filter((path) => {
    const mode = ifPossible(() => Deno.statSync(path))?.mode ?? 0;
    return (mode & S_IWOTH) !== 0;
  }).map((path) =>
    warning(`any user can write to "${path}"`, ROOT, {
      command: shell`chmod o-w ${path}`,
      look: shell`ls -ld ${path}`,
    })
  );
}

const ROOT = "any user of the node can become root: runtimes run it as root";

function findWritableConfigurations(
  { directories: { confDir }, configuration }: NodeReader,
): Findings {
  const files = [...configuration.networks, ...configuration.unusable]
    .map(({ path }) => path);
  return findWritable([confDir, ...files]);
}

async function findWritablePlugins(node: NodeReader): Promise<Findings> {
  const { pluginDirs } = node.directories;
  const files = (await node.plugins()).map(({ path }) => path);
  return findWritable([...pluginDirs, ...files]);
}

/** Finds mounts below which no plugin can be executed; each once. */
export function listNoExec(
  { directories: { pluginDirs } }: Pick<NodeReader, "directories">,
): Map<string, string[]> {
  const text =
    ifPossible(() => Deno.readTextFileSync("/proc/self/mountinfo")) ?? "";
  const found = pluginDirs.flatMap((directory) => {
    const real = ifPossible(() => Deno.realPathSync(directory));
    if (real === undefined) return [];
    const disk = ifPossible(() => readFileSystem(real));
    if (disk?.isNoExec !== true) return [];
    return [{ directory, target: findMount(real, text)?.target ?? real }];
  });
  return new Map(
    [...Map.groupBy(found, ({ target }) => target)]
      .map(([target, some]) => [target, some.map((one) => one.directory)]),
  );
}

function findNoExec(node: NodeReader): Findings {
  return [...listNoExec(node)].map(([target, directories]) =>
    error(
      `"${target}" is mounted with noexec, but plugins are in "${
        directories.join('", "')
      }"`,
      "no plugin there can be started, and no container starts",
      {
        command: shell`mount -o remount,exec ${target}`,
        look: shell`findmnt ${target}`,
      },
    )
  );
}

/** Checks of permissions. */
export const WRITABLE_CHECKS: readonly Check[] = [
  {
    code: "CNI0107",
    name: "conf-writable",
    finds: "any user can write a configuration or its directory",
    effect: "Any user of the node can become root.",
    cause: "A copy has mode 777 or 666, or the umask was 0.",
    howToInspect: "`ls -l` of the directory.",
    howToFix: "Check who could have written there, then `chmod o-w FILE`.",
    run: findWritableConfigurations,
  },
  {
    code: "CNI0207",
    name: "plugin-writable",
    finds: "any user can write a plugin or a directory of CNI_PATH",
    effect: "Any user of the node can become root.",
    cause: "A copy has mode 777, or the umask was 0.",
    howToInspect: "`ls -l` of the directory.",
    howToFix: "`chmod o-w FILE`, and install the plugins again.",
    run: findWritablePlugins,
  },
  {
    code: "CNI0208",
    name: "plugin-noexec",
    finds: "a directory of CNI_PATH is on a file system with noexec",
    effect: "No plugin there can be started.",
    cause: "/opt or /var was hardened, or a volume is mounted with noexec.",
    howToInspect: "`findmnt -T DIRECTORY`.",
    howToFix:
      "`mount -o remount,exec MOUNT` and the same in /etc/fstab, or use a different directory.",
    run: findNoExec,
  },
];
