/**
 * Moves the daemon from its container to the host's mount namespace, so that the
 * runtime's paths, namespaces and plugins are its own.
 *
 * Source: setns(2), unshare(2), user_namespaces(7); "a multithreaded process may
 * change its mount namespace if the thread shares no file system attributes".
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { findFileId, OWN_EXECUTABLE } from "../../base/files/same_file.ts";
import { O_RDONLY } from "../../ffi/file/open_flags.ts";
import * as libc from "../../ffi/libc.ts";

/** Directory of a pod's service account. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Variables that name files of the container, for the process on the host:
 * paths of descriptors. The directory stays open, because the kubelet renews
 * the token in it.
 */
const ACCOUNT = "CNI_SERVICE_ACCOUNT", CONFIG = "CNI_DAEMON_CONFIG";

const DESCRIPTORS = "/proc/self/fd/";

/** Source: include/uapi/linux/sched.h. */
const CLONE_FS = 0x200, CLONE_NEWNS = 0x20000;

/** The values that the daemon takes from its container. */
export interface ContainerFiles {
  /** Path of the daemon's own configuration; "" for none. */
  readonly config: string;
  readonly env: Environment;
}

/**
 * Replaces this process by the same program in the host's mount namespace. Returns
 * if it is there already, with the paths at which it finds the container's files.
 *
 * @param namespace The host's mount namespace
 * @throws {CniError} 5 if the host cannot be entered. Then this thread may be
 *   there, so the process must exit
 */
export function enterHost(
  namespace: string,
  { config, env }: ContainerFiles,
): ContainerFiles {
  const host = findFileId(namespace);
  if (host === undefined) {
    throw failure(namespace, new Error("it does not exist"));
  }
  if (host === findFileId("/proc/self/ns/mnt")) {
    return { config: env[CONFIG] ?? config, env: takeOver(env) };
  }
  try {
    const kept = {
      ...keepOpen(ACCOUNT, SERVICE_ACCOUNT),
      ...config !== "" && keepOpen(CONFIG, config),
    };
    const fd = libc.open(namespace, O_RDONLY);
    libc.unshare(CLONE_FS);
    libc.setns(fd, CLONE_NEWNS);
    libc.close(fd);
    return libc.execvpe({
      file: OWN_EXECUTABLE,
      argv: readArguments(),
      env: Object.entries({ ...env, ...kept })
        .map(([name, value]) => new TextEncoder().encode(`${name}=${value}\0`)),
    });
  } catch (error) {
    throw failure(namespace, error);
  }
}

/** Opens a file for the next program, which inherits the descriptor; does nothing if the file is missing. */
function keepOpen(variable: string, path: string): Record<string, string> {
  if (findFileId(path) === undefined) return {};
  // Without O_CLOEXEC.
  return { [variable]: `${DESCRIPTORS}${libc.open(path, O_RDONLY)}` };
}

/** Closes the inherited descriptors in the plugins that the daemon starts. */
function takeOver(env: Environment): Environment {
  for (const variable of [ACCOUNT, CONFIG]) {
    const fd = env[variable]?.slice(DESCRIPTORS.length);
    if (fd !== undefined) libc.closeOnExec(Number(fd));
  }
  return env;
}

/** Returns all arguments, the program's own name first. */
function readArguments(): string[] {
  const text = Deno.readTextFileSync("/proc/self/cmdline");
  return text.split("\0").slice(0, -1);
}

function failure(namespace: string, error: unknown): CniError {
  return new CniError(
    ErrorCode.IoFailure,
    `Cannot enter the host's mount namespace "${namespace}": ${
      describeError(error)
    }`,
    { details: "--host needs a privileged container with hostPID" },
  );
}
