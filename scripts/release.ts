/**
 * Makes the files of a release: `deno task release`.
 *
 *     deno task release [--target TARGET]... [--out DIRECTORY]
 *
 * For each machine: the executable with its links, systemd units and licenses
 * as `.tar.gz`, `.tar.zst` and `.deb`, and with the libraries that it needs as
 * `-any.tar.gz`. Besides, images, the Helm chart, the index of a Debian repository, a
 * software bill of materials and SHA256SUMS. The same commit gives the same bytes (docs/release.md).
 *
 * @module
 */

import { basename, resolve } from "@std/path/posix";
import { describeError } from "../base/error.ts";
import project from "../deno.json" with { type: "json" };
import node from "../package.json" with { type: "json" };
import { checkRuntime } from "./compile/runtime.ts";
import { compile } from "./compile/executables.ts";
import { ROOT, run } from "./project.ts";
import {
  namesOf,
  parseTarget,
  type Target,
  TARGETS,
} from "./compile/target.ts";
import { answerHelp, readOptions } from "./command_line.ts";
import {
  allEnded,
  ARCHIVE_KINDS,
  type ArchiveKind,
  formatChecksum,
  writeArchive,
  writeChart,
} from "./release/archive.ts";
import { type Component, listComponents } from "./release/components.ts";
import { writeDeb, writeRepository } from "./release/debian.ts";
import { Images } from "./release/images.ts";
import { addLibraries } from "./release/libraries.ts";
import {
  formatNotices,
  formatSbom,
  NAME,
  type Release,
} from "./release/sbom.ts";
import { writeSchemas } from "./schemas/write.ts";

const USAGE = `Usage: deno task release [--target TARGET]... [--out DIRECTORY]

Makes the files of a release: archives, Debian packages and images with the
executable, a Helm chart, a software bill of materials, and SHA256SUMS.

  --target TARGET  ${TARGETS.join(" or ")}; both by default
  --out DIRECTORY  dist/release by default; an earlier release in it is replaced

It needs git, tar, gzip, zstd, dpkg-deb, and the packages libc6 and libgcc-s1,
for another machine libc6-ARCH-cross and libgcc-s1-ARCH-cross. SOURCE_DATE_EPOCH is the time of
all files; by default, the time of the last commit.`;

const DEFAULT_OUT = `${ROOT}dist/release`;

/** How the names of directories begin that a release is made in. */
const STAGING = ".release_";

async function main(): Promise<void> {
  answerHelp(USAGE);
  const { target, ...others } = readOptions({
    target: { type: "string", multiple: true },
    out: { type: "string" },
  });
  const out = resolve(others.out ?? DEFAULT_OUT);
  const targets = target?.map(parseTarget) ?? TARGETS;
  requireDeno(Deno.version.deno);
  const release: Release = {
    name: NAME,
    version: project.version,
    epoch: await readEpoch(),
  };
  await checkDirectory(out);
  const components = await listComponents();
  await Deno.mkdir(out, { recursive: true });
  const staging = await Deno.makeTempDir({ dir: out, prefix: STAGING });
  try {
    const files = await makeFiles(staging, release, targets, components);
    await replaceFiles(files, out);
  } finally {
    await Deno.remove(staging, { recursive: true });
  }
  const made = await Array.fromAsync(Deno.readDir(out), ({ name }) => name);
  for (const name of made.sort()) {
    const { size } = await Deno.stat(`${out}/${name}`);
    console.log(`${out}/${name}: ${(size / 2 ** 20).toFixed(1)} MiB`);
  }
}

/**
 * Makes all files.
 *
 * @param staging An empty directory
 * @returns The directory that has them, and nothing else
 */
async function makeFiles(
  staging: string,
  release: Release,
  targets: readonly Target[],
  components: readonly Component[],
): Promise<string> {
  const out = `${staging}/files`;
  for (const path of [out, `${staging}/images`]) await Deno.mkdir(path);
  const images = new Images(release, `${staging}/images`);
  let compiled: Promise<unknown> = Promise.resolve();
  // A compression uses one processor: those of all machines run at once.
  const packed = targets.map(async (target) => {
    const place = { target, images, out, staging: `${staging}/${target}` };
    const pack = compiled.then(() => releaseFor(place, release, components));
    compiled = pack;
    return await (await pack)();
  });
  const files = (await allEnded(packed)).flat();
  const title = `${out}/${NAME}-${release.version}`;
  await images.write(`${title}-images.tar`);
  files.push(`${title}-images.tar`);
  files.push(await writeChart(release, `${staging}/chart`, out));
  const debs = files.filter((path) => path.endsWith(".deb"))
    .map((path) => basename(path));
  files.push(...await writeRepository(release, debs, out));
  const sbom = `${title}.cdx.json`;
  await Deno.writeTextFile(sbom, formatSbom(release, components));
  const sums = await Promise.all([...files, sbom].map(formatChecksum));
  await Deno.writeTextFile(`${out}/SHA256SUMS`, sums.join(""));
  return out;
}

/**
 * Replaces an earlier release, and what releases that were interrupted have left.
 *
 * @param files A directory below `out`, with the files
 */
export async function replaceFiles(files: string, out: string): Promise<void> {
  for await (const { name } of Deno.readDir(out)) {
    const path = `${out}/${name}`;
    if (!files.startsWith(`${path}/`)) {
      await Deno.remove(path, { recursive: true });
    }
  }
  for await (const { name } of Deno.readDir(files)) {
    await Deno.rename(`${files}/${name}`, `${out}/${name}`);
  }
}

/**
 * Checks that a directory may be replaced: it has only files of a release, or is empty.
 *
 * @throws {Error} If it has others
 */
export async function checkDirectory(out: string): Promise<void> {
  if (out === DEFAULT_OUT) return;
  const entries = await Array.fromAsync(Deno.readDir(out)).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  });
  const other = entries.find(({ name }) =>
    !name.startsWith(STAGING) &&
    !/^(?:SHA256SUMS$|Packages$|Release$|cni-plugins[-_])/.test(name)
  );
  if (other === undefined) return;
  throw new Error(
    `Cannot replace "${out}": it has "${other.name}", which is not of a release`,
  );
}

/** A release is made by one version of Deno, for all machines. */
function requireDeno(version: string, target?: Target): void {
  const wanted = node.engines.deno;
  if (version === wanted) return;
  const where = target === undefined ? "" : ` for ${target}`;
  throw new Error(
    `Cannot release${where}: package.json wants deno ${wanted}, this is ${version}`,
  );
}

async function readEpoch(): Promise<number> {
  const text = Deno.env.get("SOURCE_DATE_EPOCH") ??
    (await run("git", ["log", "-1", "--format=%ct"])).stdout;
  if (/^\d+\s*$/.test(text)) return Number(text);
  throw new Error(`SOURCE_DATE_EPOCH is not a number of seconds: "${text}"`);
}

/** Where the files of a machine are made. */
interface Place {
  readonly target: Target;
  /** Get the machine. */
  readonly images: Images;
  readonly out: string;
  /** A directory that does not exist. */
  readonly staging: string;
}

/**
 * Compiles for a machine.
 *
 * @returns Makes archives, package and layers of images; returns paths of the files
 */
async function releaseFor(
  { target, images, out, staging }: Place,
  release: Release,
  components: readonly Component[],
): Promise<() => Promise<string[]>> {
  const architecture = namesOf(target).debian;
  const title = `${NAME}-${release.version}-linux-${architecture}`;
  const content = `${staging}/${title}`;
  console.log(`${title}: compiling`);
  const { denoVersion, note } = await compile({
    target,
    out: `${content}/bin`,
  });
  requireDeno(denoVersion, target);
  await checkRuntime(target);
  if (note !== undefined) console.log(`${title}: ${note}`);
  const anyContent = `${content}-any`;
  await run("cp", ["-a", content, anyContent]);
  await addDocuments(content, release, components);
  const libraries = await addLibraries(target, `${anyContent}/bin`);
  await addDocuments(anyContent, release, [...components, ...libraries]);
  const path = `${out}/${title}`;
  const archive = (
    from: string,
    to: string,
    kind: ArchiveKind,
  ): Promise<string> => writeArchive(from, to, kind, release.epoch);
  const package_ = { release, architecture, content, out };
  return async () => {
    console.log(`${title}: archives, package, images`);
    const files = [
      ...ARCHIVE_KINDS.map((kind) => archive(content, path, kind)),
      writeDeb({ ...package_, staging: `${staging}/deb` }),
      archive(anyContent, `${path}-any`, ".tar.gz"),
    ];
    await allEnded<unknown>([
      ...files,
      images.add(target, architecture, anyContent),
    ]);
    return await Promise.all(files);
  };
}

/** Directories with the units of systemd. */
const UNIT_DIRECTORIES = ["daemon", "dhcp", "systemd"] as const;

/**
 * Adds documents, systemd units and schemas to a directory that has `bin`.
 *
 * @param directory Gets `LICENSE`, `THIRD-PARTY-NOTICES`, `sbom.cdx.json`, `systemd` and `schemas`
 */
export async function addDocuments(
  directory: string,
  release: Release,
  components: readonly Component[],
): Promise<void> {
  await Deno.mkdir(`${directory}/systemd`, { recursive: true });
  for (const unitDirectory of UNIT_DIRECTORIES) {
    const from = `${ROOT}deploy/${unitDirectory}`;
    const names = (await Array.fromAsync(Deno.readDir(from)))
      .map(({ name }) => name)
      // Of Kubernetes.
      .filter((name) => !name.endsWith(".yaml"));
    const paths = names.map((name) => `${from}/${name}`);
    await run("cp", ["-R", ...paths, `${directory}/systemd`]);
  }
  for (const name of ["LICENSE", "CHANGELOG.md"]) {
    await Deno.copyFile(ROOT + name, `${directory}/${name}`);
  }
  await writeSchemas(`${directory}/schemas`);
  const texts = {
    "THIRD-PARTY-NOTICES": formatNotices(components),
    "sbom.cdx.json": formatSbom(release, components),
  };
  for (const [name, text] of Object.entries(texts)) {
    await Deno.writeTextFile(`${directory}/${name}`, text);
  }
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
