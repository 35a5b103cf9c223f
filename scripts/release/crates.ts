/**
 * The Rust crates that Deno is made of, by the Cargo.lock in its own crate. Cargo
 * compares that crate with the registry's digest. They are kept in `crates.txt`,
 * because a release needs no Cargo:
 *
 *     deno run -A scripts/release/crates.ts
 *
 * Cargo.lock has the crates for every system, so an executable has some of them only.
 *
 * @module
 */

import node from "../../package.json" with { type: "json" };
import { run } from "../project.ts";
import type { Part } from "./components.ts";

/** First the version of Deno; then a name, a version and a SHA-256 in each line. */
const PATH = new URL("crates.txt", import.meta.url);

/** Returns the crates of a version of Deno; none if others are known. */
export async function listCrates(denoVersion: string): Promise<Part[]> {
  const [head, ...lines] = (await Deno.readTextFile(PATH)).trim().split("\n");
  if (head !== `deno ${denoVersion}`) return [];
  return lines.map((line) => {
    const [name = "", version = "", sha256 = ""] = line.split(" ");
    const purl = `pkg:cargo/${name}@${encodeURIComponent(version)}`;
    return { type: "library", name, version, purl, sha256 };
  });
}

/** Returns the lines of a Cargo.lock. Source: Cargo's lock file, version 4. */
export function readCargoLock(text: string): string[] {
  return text.split("[[package]]").flatMap((part) => {
    const [name, version, checksum] = ["name", "version", "checksum"]
      .map((key) => new RegExp(`^${key} = "(.*)"$`, "m").exec(part)?.[1]);
    // The crate itself has no checksum.
    return checksum === undefined ? [] : [`${name} ${version} ${checksum}`];
  });
}

/** Has Cargo fetch Deno's crate, and returns its Cargo.lock. */
async function fetchCargoLock(crate: string): Promise<string> {
  const home = await Deno.makeTempDir();
  try {
    await run("cargo", [
      "info",
      crate.replace("-", "@"),
      "--registry=crates-io",
    ], {
      env: { CARGO_HOME: home },
    });
    const sources = `${home}/registry/src`;
    for await (const { name } of Deno.readDir(sources)) {
      return await Deno.readTextFile(`${sources}/${name}/${crate}/Cargo.lock`);
    }
    throw new Error(`Cannot find the sources of ${crate} in "${sources}"`);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

if (import.meta.main) {
  const version = node.engines.deno;
  const lines = readCargoLock(await fetchCargoLock(`deno-${version}`));
  await Deno.writeTextFile(PATH, `deno ${version}\n${lines.join("\n")}\n`);
  console.log(`${lines.length} crates`);
}
