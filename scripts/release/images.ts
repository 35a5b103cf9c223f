/**
 * Images of containers, for all machines, made of the release's own files: there is
 * no base image. `cni-plugins` and `multus` have the same layers, and each has a
 * second form for any libc, which takes glibc along to the node.
 *
 * ```
 * /opt/cni/bin/cni       the executable            ┐ a layer of all
 * /opt/cni/bin/multus → cni                        ┘
 * /lib/x86_64-linux-gnu  glibc, for the container  a layer of :VERSION
 * /opt/cni/bin/.cni-lib  glibc, also for the node  a layer of :VERSION-any
 * ```
 *
 * They are one archive in OCI's image layout, in which a layer is there once. buildah and
 * skopeo write the time of the build into such an archive, and umoci makes no image of
 * several machines.
 *
 * Source: https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { LIBRARY_DIRECTORY } from "../../base/files/libraries.ts";
import { hexOfFile } from "../compile/runtime.ts";
import { LINKERS } from "../stubs/linker_stub.ts";
import { ROOT, run } from "../project.ts";
import { namesOf, type Target } from "../compile/target.ts";
import { writeTar } from "./archive.ts";
import type { Release } from "./sbom.ts";

/** The images, and the directories of deploy/ with their Containerfiles. */
const IMAGES = { "cni-plugins": "plugins", "multus": "multus" } as const;

/** The forms of an image, by the end of its tag. */
const FORMS = { "": "libraries", "-any": "any" } as const;

const PLUGINS = "/opt/cni/bin";
const DOCUMENTS = "/usr/share/doc/cni-plugins";

/** What OCI calls the documents of a layout. */
const TYPES = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
} as const;

/** A reference to a blob. */
interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** A layer, and the digest of its tar file. */
interface Layer {
  readonly descriptor: Descriptor;
  readonly diffId: string;
}

/** The layers for a machine. */
type Layers = Readonly<Record<"programs" | "libraries" | "any", Layer>>;

/** The images of a release, to which machines are added. */
export class Images {
  readonly #release: Release;
  readonly #directory: string;
  readonly #machines: {
    readonly architecture: string;
    readonly layers: Layers;
  }[] = [];

  /** @param directory An empty directory for the blobs */
  constructor(release: Release, directory: string) {
    this.#release = release;
    this.#directory = directory;
  }

  /**
   * Adds a machine.
   *
   * @param content What is archived for any libc: `bin`, and documents
   */
  async add(
    target: Target,
    architecture: string,
    content: string,
  ): Promise<void> {
    const libraries = `${content}/bin/${LIBRARY_DIRECTORY}`;
    const names = (await Array.fromAsync(Deno.readDir(libraries)))
      .map(({ name }) => name);
    const machine = namesOf(target).arch;
    const linker = LINKERS[machine];
    const place = (name: string): string => {
      if (linker.endsWith(`/${name}`)) return linker;
      // Where Debian's dynamic linker looks without a cache.
      return name.endsWith(".txt")
        ? `${DOCUMENTS}/${name}`
        : `/lib/${machine}-linux-gnu/${name}`;
    };
    const documents = ["LICENSE", "THIRD-PARTY-NOTICES", "sbom.cdx.json"];
    const layers = {
      programs: await this.#writeLayer(architecture, {
        [`${PLUGINS}/cni`]: `${content}/bin/cni`,
        ...Object.fromEntries(
          documents.map((
            name,
          ) => [`${DOCUMENTS}/${name}`, `${content}/${name}`]),
        ),
      }, { [`${PLUGINS}/multus`]: "cni" }),
      libraries: await this.#writeLayer(
        architecture,
        Object.fromEntries(
          names.map((name) => [place(name), `${libraries}/${name}`]),
        ),
      ),
      any: await this.#writeLayer(
        architecture,
        Object.fromEntries(
          names.map((name) => [
            `${PLUGINS}/${LIBRARY_DIRECTORY}/${name}`,
            `${libraries}/${name}`,
          ]),
        ),
      ),
    };
    this.#machines.push({ architecture, layers });
    this.#machines.sort((a, b) => a.architecture < b.architecture ? -1 : 1);
  }

  /** Writes the archive. */
  async write(path: string): Promise<void> {
    const manifests: object[] = [];
    for (const image of Object.keys(IMAGES) as (keyof typeof IMAGES)[]) {
      for (const [end, form] of Object.entries(FORMS)) {
        const name = `${image}:${this.#release.version}${end}`;
        const annotations = {
          "org.opencontainers.image.ref.name": name,
          // What containerd calls an image that it imports.
          "io.containerd.image.name": `docker.io/library/${name}`,
        };
        manifests.push({ ...await this.#putIndex(image, form), annotations });
      }
    }
    const index = { schemaVersion: 2, mediaType: TYPES.index, manifests };
    const files = {
      "index.json": JSON.stringify(index),
      "oci-layout": JSON.stringify({ imageLayoutVersion: "1.0.0" }),
    };
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${this.#directory}/${name}`, text);
    }
    const names = ["blobs", ...Object.keys(files)];
    await writeTar(this.#directory, names, path, this.#release.epoch);
  }

  /** Puts an image of all machines. */
  async #putIndex(
    image: keyof typeof IMAGES,
    form: "libraries" | "any",
  ): Promise<Descriptor> {
    const { version, epoch } = this.#release;
    const annotations = {
      "org.opencontainers.image.title": image,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "Apache-2.0",
      "org.opencontainers.image.created": timeOf(epoch),
    };
    const manifests: object[] = [];
    for (const { architecture, layers } of this.#machines) {
      const own = [layers.programs, layers[form]];
      const config = await this.#put(TYPES.config, {
        created: timeOf(epoch),
        architecture,
        os: "linux",
        config: await readCommand(IMAGES[image]),
        rootfs: { type: "layers", diff_ids: own.map(({ diffId }) => diffId) },
      });
      const manifest = await this.#put(TYPES.manifest, {
        schemaVersion: 2,
        mediaType: TYPES.manifest,
        config,
        layers: own.map(({ descriptor }) => descriptor),
        annotations,
      });
      manifests.push({ ...manifest, platform: { architecture, os: "linux" } });
    }
    const mediaType = TYPES.index;
    return await this.#put(mediaType, {
      ...{ schemaVersion: 2, mediaType, manifests, annotations },
    });
  }

  /** Puts a document. */
  async #put(mediaType: string, document: object): Promise<Descriptor> {
    const path = `${this.#directory}/document`;
    await Deno.writeTextFile(path, JSON.stringify(document));
    return await this.#move(mediaType, path);
  }

  /** Moves a file to the blobs. */
  async #move(mediaType: string, path: string): Promise<Descriptor> {
    const hex = await hexOfFile(path);
    const { size } = await Deno.stat(path);
    await Deno.mkdir(`${this.#directory}/blobs/sha256`, { recursive: true });
    await Deno.rename(path, `${this.#directory}/blobs/sha256/${hex}`);
    return { mediaType, digest: `sha256:${hex}`, size };
  }

  /** Puts a layer of files and symbolic links, by their paths in the image. */
  async #writeLayer(
    architecture: string,
    files: Readonly<Record<string, string>>,
    links: Readonly<Record<string, string>> = {},
  ): Promise<Layer> {
    // Machines are added at the same time.
    const root = `${this.#directory}/${architecture}-root`;
    for (const path of Object.keys({ ...files, ...links })) {
      await Deno.mkdir(dirname(root + path), { recursive: true });
    }
    for (const [path, source] of Object.entries(files)) {
      // A link would change the source's ctime, and tar, which may be reading it
      // for an archive, would fail.
      await Deno.copyFile(source, root + path);
    }
    for (const [path, target] of Object.entries(links)) {
      await Deno.symlink(target, root + path);
    }
    const names = (await Array.fromAsync(Deno.readDir(root)))
      .map(({ name }) => name).sort();
    const path = `${this.#directory}/${architecture}-layer`;
    await writeTar(root, names, path, this.#release.epoch);
    await Deno.remove(root, { recursive: true });
    const diffId = `sha256:${await hexOfFile(path)}`;
    await run("gzip", ["-9", "-n", path]);
    return { diffId, descriptor: await this.#move(TYPES.layer, `${path}.gz`) };
  }
}

function timeOf(epoch: number): string {
  return new Date(epoch * 1000).toISOString().replace(".000Z", "Z");
}

/** Reads what an image runs from its Containerfile. */
async function readCommand(directory: string): Promise<object> {
  const path = `${ROOT}deploy/${directory}/Containerfile`;
  const text = await Deno.readTextFile(path);
  const read = (name: string): string[] => {
    const [, list] = new RegExp(`^${name} (\\[.*\\])$`, "m").exec(text) ?? [];
    if (list !== undefined) return JSON.parse(list);
    throw new Error(`Cannot make an image: "${path}" has no ${name}`);
  };
  return { Entrypoint: read("ENTRYPOINT"), Cmd: read("CMD") };
}
