/**
 * Images of containers, made of files of this machine: nothing is pulled.
 *
 * @module
 */

import { dirname } from "@std/path/posix";

/** An image of one layer. */
export interface Image {
  /** As `localhost/busybox:1`. */
  readonly name: string;
  /** Its files, by absolute path: a file of this machine. */
  readonly files: Readonly<Record<string, string>>;
  /** Targets of symbolic links, by absolute path. */
  readonly links?: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
}

/** Writes an image as `docker save` does, to `directory/image.tar`; returns that path. */
export async function writeImage(
  directory: string,
  { name, files, links = {}, entrypoint }: Image,
): Promise<string> {
  const root = `${directory}/root`;
  for (const [path, source] of Object.entries(files)) {
    await Deno.mkdir(dirname(root + path), { recursive: true });
    // As the linker of a container finds it: the file, not a link to it.
    await run("cp", "--dereference", "--reflink=auto", source, root + path);
  }
  for (const [path, target] of Object.entries(links)) {
    await Deno.mkdir(dirname(root + path), { recursive: true });
    await Deno.symlink(target, root + path);
  }
  const layer = `${directory}/layer.tar`;
  await run("tar", "-C", root, "--owner=0", "--group=0", "-cf", layer, ".");
  await Deno.remove(root, { recursive: true });
  const write = (name: string, value: unknown): Promise<void> =>
    Deno.writeTextFile(`${directory}/${name}`, JSON.stringify(value));
  await write("config.json", {
    architecture: Deno.build.arch === "x86_64" ? "amd64" : "arm64",
    os: "linux",
    config: { Entrypoint: entrypoint },
    rootfs: { type: "layers", diff_ids: [`sha256:${await digest(layer)}`] },
  });
  await write("manifest.json", [
    { Config: "config.json", RepoTags: [name], Layers: ["layer.tar"] },
  ]);
  const parts = ["config.json", "layer.tar", "manifest.json"];
  const image = `${directory}/image.tar`;
  await run("tar", "-C", directory, "--remove-files", "-cf", image, ...parts);
  return image;
}

/** Lists the files with which an executable starts: itself, and its libraries. */
export async function listLibraries(
  executable: string,
): Promise<Record<string, string>> {
  const text = await run("ldd", executable);
  const paths = [...text.matchAll(/(\/\S+) \(0x/g)].map(([, path = ""]) =>
    path
  );
  return Object.fromEntries(paths.map((path) => [path, path]));
}

async function digest(path: string): Promise<string> {
  const text = await run("sha256sum", path);
  return text.slice(0, 64);
}

async function run(program: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args })
    .output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`${program}: ${decoder.decode(stderr)}`);
}
