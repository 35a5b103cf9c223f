/**
 * What a network's directory contains.
 *
 * @module
 */

/** Where a listing is from: the leases, their index, or this process's memory. */
export type Source = "files" | "index" | "memory";

/** Files of a directory by name, with the content of possible leases. */
export interface Listing {
  readonly source: Source;
  /** Returns the content of a possible lease; undefined for other names. */
  get(name: string): string | undefined;
  /** Reports whether there is a file of that name. */
  has(name: string): boolean;
  /** Lists all files, with the content of possible leases. */
  entries(): Iterable<[name: string, content: string | undefined]>;
  /** Lists the names of the leases with a content. */
  withContent(content: string): string[];
  /** Adds a file, or changes its content. */
  set(name: string, content: string | undefined): void;
  /** Removes a file. */
  delete(name: string): void;
}

/** A listing that this process has read. */
export class ReadListing implements Listing {
  readonly source: "files" | "memory";
  readonly #contents = new Map<string, string | undefined>();
  /** The names by content; undefined for a listing that is asked once or twice. */
  readonly #names: Map<string, Set<string>> | undefined;

  /** Creates an empty listing. A listing in memory has an index, as it is read often. */
  constructor(source: "files" | "memory") {
    this.source = source;
    if (source === "memory") this.#names = new Map();
  }

  get(name: string): string | undefined {
    return this.#contents.get(name);
  }

  has(name: string): boolean {
    return this.#contents.has(name);
  }

  entries(): Iterable<[name: string, content: string | undefined]> {
    return this.#contents;
  }

  withContent(content: string): string[] {
    if (this.#names !== undefined) return [...this.#names.get(content) ?? []];
    return [...this.#contents].filter((entry) => entry[1] === content)
      .map(([name]) => name);
  }

  set(name: string, content: string | undefined): void {
    this.delete(name);
    this.#contents.set(name, content);
    if (this.#names === undefined || content === undefined) return;
    const names = this.#names.get(content);
    if (names === undefined) this.#names.set(content, new Set([name]));
    else names.add(name);
  }

  delete(name: string): void {
    const content = this.#contents.get(name);
    this.#contents.delete(name);
    if (content === undefined) return;
    const names = this.#names?.get(content);
    names?.delete(name);
    if (names?.size === 0) this.#names?.delete(content);
  }
}
