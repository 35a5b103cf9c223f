/**
 * Bundles a module and all its imports into one script.
 *
 * @module
 */

import { basename, extname, isAbsolute } from "@std/path/posix";
import { DIGEST_PLACEHOLDER } from "../../base/process/build_identity.ts";
import { loadScripts } from "../../cli/completion/scripts.ts";
import { loadHelpTexts } from "../../cli/help_texts.ts";
import { loadTemplates } from "../../cli/new/templates.ts";
import { makeSchemas } from "../../cli/explain/make.ts";
import { exists } from "../../base/files/io.ts";
import { foreignImportFlags, importFlags } from "../import_flags.ts";
import { makeImportMap } from "./import_map.ts";
import { keepUsingDeclarations } from "./keep_using_declarations.ts";
import { type Chunks, linkChunks, wrapChunk } from "./link.ts";
import { findChangeTime, GO_ENV, ROOT, run, runDeno } from "../project.ts";

/** What the programs are made of: directories and files in the project's root. */
export const PROGRAM_SOURCES = [
  "net",
  "ffi",
  "base",
  "cni",
  "metadata",
  "libcni",
  "ipam",
  "kube",
  "plugins",
  "node",
  "daemon",
  "cli",
  "testing/conform",
  "testing/ip_json.ts",
  "main.ts",
  "deploy/daemon",
  "scripts/offline",
  "deno.json",
  "deno.lock",
] as const;

/** Further sources, which other programs import by the name of the project. */
export const LIBRARY_SOURCES = [
  "mod.ts",
  "libcni.ts",
  "nftables.ts",
  "traffic_control.ts",
] as const;

/** A script on disk. */
export interface Bundle {
  readonly path: string;
  /** Size in bytes. */
  readonly size: number;
  /** The value of its `buildIdentity`. */
  readonly identity: string;
}

/**
 * Copies the sources to another directory, in which their packages are put beside
 * them. The bundler orders and names by paths from the directory it runs in, and
 * those to the cache of packages are not the same everywhere; so are these.
 */
async function copySources(directory: string): Promise<void> {
  const sources = [...PROGRAM_SOURCES, ...LIBRARY_SOURCES];
  await run("cp", ["-r", "--parents", ...sources, directory]);
}

/** Puts what functions return in place of them, compressed: few calls need it. */
async function packValues(directory: string): Promise<void> {
  await pack(directory, "cli/explain/make.ts", makeSchemas);
  await pack(directory, "cli/new/templates.ts", loadTemplates);
  await pack(directory, "cli/help_texts.ts", loadHelpTexts);
  await pack(directory, "cli/completion/scripts.ts", loadScripts);
}

async function pack(
  directory: string,
  file: string,
  make: () => Promise<object>,
): Promise<void> {
  const bytes = new Blob([JSON.stringify(await make())]).stream()
    .pipeThrough(new CompressionStream("brotli"));
  const packed = (await new Response(bytes).bytes()).toBase64();
  const path = "../".repeat(file.split("/").length - 1) + "base/command_line";
  await Deno.writeTextFile(
    `${directory}/${file}`,
    `import { unpack } from "${path}/packed.ts";
     export const ${make.name} = () => unpack("${packed}");`,
  );
}

/**
 * Returns the flags by which imports are resolved.
 *
 * @param directory The copy of the sources
 */
async function resolutionFlags(
  entry: string,
  directory: string,
): Promise<string[]> {
  if (!isAbsolute(entry)) return await importFlags();
  const flags = await foreignImportFlags();
  const path = `${directory}/import_map.json`;
  const map = await makeImportMap(directory, entry);
  await Deno.writeTextFile(path, JSON.stringify(map));
  return [
    ...flags.filter((flag) => !flag.startsWith("--import-map=")),
    `--import-map=${path}`,
  ];
}

/** Reads the bundle; the entry keeps its name, with another extension. */
async function readChunks(directory: string): Promise<Chunks> {
  const chunks: Record<string, string> = {};
  for await (const { name } of Deno.readDir(directory)) {
    chunks[name] = await Deno.readTextFile(`${directory}/${name}`);
  }
  return chunks;
}

/** Has `deno bundle` make modules; what it only warns of is then missing. */
async function makeModules(
  entry: string,
  args: readonly string[],
  directory: string,
): Promise<void> {
  const { stderr } = await runDeno(["bundle", "--format=esm", ...args], {
    cwd: directory,
    // It runs esbuild.
    env: GO_ENV,
  });
  const warning = /^bundler warning: [^]*/m.exec(stderr);
  if (warning === null) return;
  throw new Error(`Cannot bundle "${entry}": ${warning[0]}`);
}

/** Returns the digest of all chunks, which identifies the program. */
async function findIdentity(chunks: Chunks): Promise<string> {
  const all = JSON.stringify(Object.entries(chunks).toSorted());
  const bytes = new TextEncoder().encode(all);
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return new Uint8Array(digest).toHex();
}

/** Puts it where the program says what identifies it. */
function putIdentity(chunks: Chunks, identity: string): Chunks {
  return Object.fromEntries(
    Object.entries(chunks).map(([name, source]) => [
      name,
      source.replaceAll(DIGEST_PLACEHOLDER, identity),
    ]),
  );
}

async function rewriteChunks(
  directory: string,
  rewrite: (source: string) => string,
): Promise<void> {
  for (const [name, source] of Object.entries(await readChunks(directory))) {
    await Deno.writeTextFile(`${directory}/${name}`, rewrite(source));
  }
}

/** Returns the name of the chunk that is started. */
function entryChunkOf(entry: string): string {
  return `${basename(entry, extname(entry))}.js`;
}

/** The copy of the sources that this process bundles in: five thousand files. */
let copy: Promise<string> | undefined;

async function makeCopy(): Promise<string> {
  const directory = await Deno.makeTempDir({
    dir: `${ROOT}build`,
    prefix: ".bundle_",
  });
  addEventListener(
    "unload",
    () => Deno.removeSync(directory, { recursive: true }),
  );
  await copySources(directory);
  await packValues(directory);
  return directory;
}

/** The bundle before: they take turns in the copy. */
let last: Promise<unknown> = Promise.resolve();

function makeChunks(entry: string, isSplit: boolean): Promise<Chunks> {
  const made = last.then(async () =>
    await makeChunksIn(await (copy ??= makeCopy()), entry, isSplit)
  );
  last = made.catch(() => {});
  return made;
}

async function makeChunksIn(
  directory: string,
  entry: string,
  isSplit: boolean,
): Promise<Chunks> {
  const [whole, chunks] = [`${directory}/whole`, `${directory}/chunks`];
  for (const old of [whole, chunks]) {
    if (exists(old)) await Deno.remove(old, { recursive: true });
  }
  // A program from outside may have added packages of its own.
  await Deno.copyFile(`${ROOT}deno.lock`, `${directory}/deno.lock`);
  const flags = await resolutionFlags(entry, directory);
  const resolved = [...flags, "--node-modules-dir=auto", entry];
  const splitting = isSplit ? ["--code-splitting"] : [];
  await makeModules(
    entry,
    [...splitting, ...resolved, `--outdir=${whole}`],
    directory,
  );
  await rewriteChunks(whole, keepUsingDeclarations);
  const small = [...splitting, "--minify", `--outdir=${chunks}`];
  const first = `whole/${entryChunkOf(entry)}`;
  await makeModules(entry, [...small, first], directory);
  return await readChunks(chunks);
}

/**
 * Bundles the module `entry` into `build/<name>.js`, a script without imports.
 *
 * Its modification time becomes 0, because `deno compile` puts that into the
 * executable.
 *
 * @param entry From the project's root; absolute if it is not the project's
 * @param isLinked Whether the script is made of several chunks, and not of one
 * @throws {Error} If the module does not exist, or if `deno bundle` fails or warns: it only warns of things that are then missing, such as `import.meta.main`
 */
export async function bundle(
  entry: string,
  name: string,
  isLinked: boolean,
): Promise<Bundle> {
  if (isAbsolute(entry) && await findChangeTime(entry) === undefined) {
    throw new Error(`Cannot bundle "${entry}": there is no such file`);
  }
  const path = `${ROOT}build/${name}.js`;
  await Deno.mkdir(`${ROOT}build`, { recursive: true });
  const chunks = await makeChunks(entry, isLinked);
  const identity = await findIdentity(chunks);
  const script = (isLinked ? linkChunks : wrapChunk)(
    putIdentity(chunks, identity),
    entryChunkOf(entry),
  );
  const unfinished = await Deno.makeTempFile({
    dir: `${ROOT}build`,
    prefix: ".bundle_",
  });
  await Deno.writeTextFile(unfinished, script);
  await Deno.utime(unfinished, 0, 0);
  await Deno.rename(unfinished, path);
  return { path, size: (await Deno.stat(path)).size, identity };
}
