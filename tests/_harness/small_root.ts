/**
 * Root directories without glibc, with the executables installed.
 *
 * @module
 */

import { ensureUnpacked } from "../../scripts/debian_packages.ts";
import { run } from "../../scripts/release/archive.ts";
import { unpackRelease, type Which } from "./release_files.ts";
import { withMounts } from "./with_mounts.ts";

/** Debian packages, which are only unpacked. */
const PACKAGES = ["busybox-static", "musl"];

const UNPACKED = new URL("../../build/small-root", import.meta.url).pathname;

/** What a root has besides the executables: a shell, and perhaps musl as its libc. */
export type RootKind = "busybox" | "musl";

/** Reports whether roots can be made on this machine. */
export async function hasSmallRoot(): Promise<boolean> {
  return await ensureUnpacked(PACKAGES, UNPACKED);
}

/** Both archives, unpacked once; roots have links to the same files. */
let archives: Promise<string> | undefined;

async function unpack(): Promise<string> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  addEventListener(
    "unload",
    () => Deno.removeSync(directory, { recursive: true }),
  );
  for (const which of ["before", "now"] as const) {
    await unpackRelease(which, "-any", `${directory}/${which}`);
  }
  return directory;
}

/** A root directory in which programs run, in a mount namespace of their own. It has a
 * /run of its own, and so none of the machine's daemons. */
export class SmallRoot {
  readonly #directory: string;
  /** The root. */
  readonly path: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.path = `${directory}/root`;
  }

  /**
   * Makes a root.
   *
   * @param directory Where; the caller removes it. Programs in the root see it, too
   */
  static async create(directory: string, kind: RootKind): Promise<SmallRoot> {
    const root = new SmallRoot(directory);
    const { path } = root;
    for (const name of ["bin", "proc", "sys", "run", "tmp", "etc", "dev"]) {
      await Deno.mkdir(`${path}/${name}`, { recursive: true });
    }
    await Deno.copyFile(`${UNPACKED}/bin/busybox`, `${path}/bin/busybox`);
    await Deno.symlink("busybox", `${path}/bin/sh`);
    if (kind === "musl") {
      await run("cp", ["-r", `${UNPACKED}/lib`, `${path}/lib`]);
    }
    await run("cp", ["-al", `${await (archives ??= unpack())}/.`, directory]);
    return root;
  }

  /** Returns the directory of the executables of a release's archive for any libc. */
  archive(which: Which): string {
    return `${this.#directory}/${which}/bin`;
  }

  /**
   * Returns the path of a script that runs a program in the root.
   *
   * @param program Its path in the root
   */
  script(program: string): string {
    const seen = `${this.path}${this.#directory}`;
    const mounts = [
      `mkdir -p "${seen}"`,
      `for name in proc sys dev; do mount --rbind /$name "${this.path}/$name"; done`,
      `mount --bind "${this.#directory}" "${seen}"`,
    ];
    return withMounts(this.#directory, program, mounts, this.path);
  }
}
