/**
 * Finds the kernel that `deno task test:kernel` boots, and fetches it.
 *
 * It is User-mode Linux of {@linkcode RELEASE}: the one of Debian 12 needs
 * several times the CPU time, since it stops a process by ptrace(2) for each
 * system call and page fault, and it does not start on a processor with AMX. It
 * is unpacked into `build/uml` only. Where it cannot be had, the machine's own
 * package does, on a processor on which it starts.
 *
 * @module
 */

import { hasCommand } from "../../testing/capabilities.ts";
import {
  ensureDebianPackages,
  ensureUnpacked,
} from "../setup/debian_packages.ts";
import { exists, ifPossible } from "../../base/files/io.ts";
import { ROOT, run } from "../project.ts";
import type { Kernel } from "./boot.ts";

/** The kernel's package. */
const PACKAGE = "user-mode-linux";

/** The program in it. */
const PROGRAM = "linux.uml";

/** The oldest release of Debian whose kernel needs no ptrace(2): Linux 6.16. */
const RELEASE = "forky";

/** The library that the kernel was built for: older ones lack symbols. */
const LIBRARY = "libc6";

/** The root of the files of both packages. */
const UNPACKED = `${ROOT}build/uml`;

/** The program with its own library. */
const OWN_PROGRAM = `${UNPACKED}/${PROGRAM}`;

/** Where the package has its modules. */
const MODULES = "/usr/lib/uml/modules";

/** Returns the kernel, if it is on this machine. */
export function findKernel(): Kernel | undefined {
  if (exists(OWN_PROGRAM)) {
    return {
      program: OWN_PROGRAM,
      // Its loader is named from there.
      cwd: `${UNPACKED}/usr`,
      env: { LD_LIBRARY_PATH: `${UNPACKED}/usr/lib/x86_64-linux-gnu` },
      modules: `${UNPACKED}${MODULES}`,
    };
  }
  return hasCommand(PROGRAM) && !hasAmx()
    ? { program: PROGRAM, env: {}, modules: MODULES }
    : undefined;
}

function hasAmx(): boolean {
  const text = ifPossible(() => Deno.readTextFileSync("/proc/cpuinfo")) ?? "";
  return text.includes(" amx_tile ");
}

/** Fetches the kernel and the program that loads its modules, as far as root can. */
export async function ensureKernel(): Promise<void> {
  if (Deno.uid() !== 0) return;
  await ensureDebianPackages(["kmod"]);
  if (exists(OWN_PROGRAM)) return;
  if (await ensureUnpacked([PACKAGE, LIBRARY], UNPACKED, RELEASE)) {
    const unfinished = `${OWN_PROGRAM}.${Deno.pid}`;
    await Deno.copyFile(`${UNPACKED}/usr/bin/${PROGRAM}`, unfinished);
    await nameLoaderFromDirectory(unfinished);
    await Deno.rename(unfinished, OWN_PROGRAM);
  } else {
    await ensureDebianPackages([PACKAGE]);
  }
}

/**
 * Has an executable use the loader below the directory that it is started in, not the
 * machine's: takes the slash from the loader's path. To start the loader with the
 * program as its argument would not do: this kernel wants its heap behind its own
 * code.
 *
 * @throws {Error} If it does not name the loader
 */
async function nameLoaderFromDirectory(path: string): Promise<void> {
  const loader = String.raw`lib64/ld-linux-x86-64\.so\.2`;
  const env = { LC_ALL: "C" };
  await run("grep", ["-qa", `/${loader}`, path], { env });
  const script = String.raw`s,/\(${loader}\)\x00,\1\x00\x00,`;
  await run("sed", ["-i", script, path], { env });
}
