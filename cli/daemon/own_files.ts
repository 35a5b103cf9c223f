/**
 * Plugins that are copies of this executable in separate files: the executable of a
 * daemon in a container is not the file that the runtime starts.
 *
 * @module
 */

import { FileStamps } from "../../base/files/file_stamps.ts";
import { haveSameContent } from "../../base/files/same_content.ts";
import { findFileId, OWN_EXECUTABLE } from "../../base/files/same_file.ts";

/** The outcome of a comparison, and the state of the plugin's file before it. */
interface Compared {
  readonly isOwn: boolean;
  readonly stamps: FileStamps;
}

/** Compares plugins with an executable, again only if they have changed. */
export class OwnFiles {
  readonly #executable: string;
  readonly #names: readonly string[];
  #compared: ReadonlyMap<string, Compared> = new Map();

  /**
   * @param names The plugins' names
   * @param executable Path of the executable; this process's by default
   */
  constructor(names: readonly string[], executable: string = OWN_EXECUTABLE) {
    this.#names = names;
    this.#executable = executable;
  }

  /** Lists the files of plugins with the executable's content, as `findFileId` identifies them. */
  async list(directories: readonly string[]): Promise<string[]> {
    const paths = new Map<string, string>();
    for (const directory of directories) {
      for (const name of this.#names) {
        const path = `${directory}/${name}`, id = findFileId(path);
        if (id !== undefined) paths.set(id, path);
      }
    }
    const compared = new Map<string, Compared>();
    for (const [id, path] of paths) {
      const known = this.#compared.get(id);
      const isCurrent = known?.stamps.isCurrent() === true;
      compared.set(id, isCurrent ? known : await this.#compare(path));
    }
    this.#compared = compared;
    return [...compared].filter(([, { isOwn }]) => isOwn).map(([id]) => id);
  }

  async #compare(path: string): Promise<Compared> {
    const stamps = new FileStamps();
    stamps.add([path]);
    const isOwn = await haveSameContent(this.#executable, path)
      .catch(() => false);
    return { isOwn, stamps };
  }
}
