/**
 * Makes one script out of a module and all that it imports.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { importFlags } from "../net.ts";
import { type Chunks, linkChunks } from "./link.ts";
import { ROOT, runDeno } from "./project.ts";

/** A script on disk. */
export interface Bundle {
  readonly path: string;
  /** Size in bytes. */
  readonly size: number;
}

/** Reads what was bundled; the entry keeps its name, with another ending. */
async function readChunks(folder: string): Promise<Chunks> {
  const chunks: Record<string, string> = {};
  for await (const { name } of Deno.readDir(folder)) {
    chunks[name] = await Deno.readTextFile(`${folder}/${name}`);
  }
  return chunks;
}

/**
 * Bundles the module `entry` into `build/<name>.js`, a script without imports.
 *
 * Its modification time becomes 0, because `deno compile` puts that into the
 * executable.
 *
 * @param entry Absolute, or from the project's root
 * @throws {Error} If `deno bundle` fails or warns: it only warns of things that are then missing, such as `import.meta.main`
 */
export async function bundle(entry: string, name: string): Promise<Bundle> {
  const path = `${ROOT}build/${name}.js`;
  await Deno.mkdir(`${ROOT}build`, { recursive: true });
  const staging = await Deno.makeTempDir({
    dir: `${ROOT}build`,
    prefix: ".bundle_",
  });
  try {
    const output = await runDeno([
      "bundle",
      ...await importFlags(),
      "--code-splitting",
      "--format=esm",
      "--minify",
      `--outdir=${staging}/chunks`,
      entry,
    ]);
    const warning = /^bundler warning: [^]*/m.exec(output);
    if (warning !== null) {
      throw new Error(`Cannot bundle "${entry}": ${warning[0]}`);
    }
    const unfinished = `${staging}/${name}.js`;
    const entryChunk = `${basename(entry, ".ts")}.js`;
    const chunks = await readChunks(`${staging}/chunks`);
    await Deno.writeTextFile(unfinished, linkChunks(chunks, entryChunk));
    await Deno.utime(unfinished, 0, 0);
    await Deno.rename(unfinished, path);
    return { path, size: (await Deno.stat(path)).size };
  } finally {
    await Deno.remove(staging, { recursive: true });
  }
}
