/**
 * Collects what explains the state of a node.
 *
 * @module
 */

import { ifPossible, readTextFile } from "../../base/files/io.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../base/json/json.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { formatMasked, maskSecrets } from "./mask.ts";
import { isExtractable } from "./tar.ts";

/** Longest file, in characters; the rest is cut. */
const MOST_CHARACTERS = 512 * 1024;
/** Most files, so that a full disk is not made worse. */
const MOST_FILES = 5000;

/** Texts by path, and what could not be collected. */
export class Collection {
  /** Contents by path, without secrets. */
  readonly files: Map<string, string> = new Map();
  /** Paths, and why they are missing. */
  readonly missing: Map<string, string> = new Map();
  readonly #signal: AbortSignal;
  readonly #onStep: (path: string) => void;

  /**
   * Starts an empty collection.
   *
   * @param signal Ends programs that still run
   * @param onStep Receives each path before it is collected
   */
  constructor(signal: AbortSignal, onStep: (path: string) => void) {
    this.#signal = signal;
    this.#onStep = onStep;
  }

  /** Adds a text, without secrets. */
  add(path: string, text: string): void {
    this.#put(path, maskSecrets(text));
  }

  #put(path: string, text: string): void {
    if (this.files.size >= MOST_FILES) return this.skip(path, "too many files");
    if (!isExtractable(path)) return this.skip(path, "the name is too long");
    const shown = text.length > MOST_CHARACTERS
      ? `${text.slice(0, MOST_CHARACTERS)}\n(cut: ${text.length} characters)\n`
      : text;
    this.files.set(path, shown);
  }

  /** Notes what is missing. */
  skip(path: string, error: unknown): void {
    this.missing.set(path, formatFailureText(error));
  }

  /** Adds a value as JSON, or notes why it is missing. */
  async addJson(path: string, work: () => unknown): Promise<void> {
    this.#onStep(path);
    try {
      this.#put(path, formatMasked(await work()));
    } catch (error) {
      this.skip(path, error);
    }
  }

  /** Adds the files below a directory. Cached configurations are decoded. */
  addDirectory(path: string, directory: string): void {
    this.#onStep(path);
    try {
      for (
        const { name, isDirectory, isFile, isSymlink } of Deno.readDirSync(
          directory,
        )
      ) {
        const inside = `${path}/${name}`;
        if (isDirectory) this.addDirectory(inside, `${directory}/${name}`);
        else if (isFile || isSymlink) {
          this.addFile(inside, `${directory}/${name}`);
        }
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) this.skip(path, error);
    }
  }

  /** Adds a file, if it exists. */
  addFile(path: string, file: string): void {
    try {
      const text = readTextFile(file);
      const cached = decodeCached(text);
      this.#put(
        path,
        cached === undefined ? maskSecrets(text) : formatMasked(cached),
      );
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) this.skip(path, error);
    }
  }

  /** Adds the output of a program, run in a namespace if its path is given. */
  async addOutput(
    path: string,
    [program = "", ...args]: readonly string[],
    netns?: string,
  ): Promise<void> {
    this.#onStep(path);
    try {
      const command = new Deno.Command(program, {
        args,
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
        signal: this.#signal,
      });
      const child = netns === undefined
        ? command.spawn()
        : spawnIn(netns, command);
      const { success, stdout, stderr } = await child.output();
      const decoder = new TextDecoder();
      const text = decoder.decode(stdout);
      if (success) return this.add(path, text);
      this.skip(path, decoder.decode(stderr).trim() || `${program} failed`);
    } catch (error) {
      const isMissing = error instanceof Deno.errors.NotFound;
      this.skip(path, isMissing ? `${program} is not installed` : error);
    }
  }
}

function spawnIn(path: string, command: Deno.Command): Deno.ChildProcess {
  using netns = NetNs.open(path);
  return inNetns(netns, () => command.spawn());
}

/** Decodes a cached attachment with its configuration, so that secrets are seen. */
function decodeCached(text: string): JsonObject | undefined {
  const document = ifPossible(() => parseJson(text));
  if (!isObject(document)) return undefined;
  const { kind, config } = document as JsonObject;
  if (kind !== "cniCacheV1" || typeof config !== "string") return undefined;
  const decoded = ifPossible(() => parseJson(Uint8Array.fromBase64(config))) as
    | JsonValue
    | undefined;
  return { ...document as JsonObject, config: decoded ?? "not JSON" };
}
