/**
 * The record of a chain's attachment: its plugins that must be undone, and the input
 * with which DEL undoes them.
 *
 * A file `/run/cni/chain/NAME` exists while ADD runs, after an ADD that failed or was
 * killed, and after a DEL that failed. An attachment whose ADD succeeded needs no
 * file, because all its plugins must be undone. Each line is written with a single
 * call before the plugin runs, so that a kill at any moment leaves a record with at
 * most a superfluous plugin. After a reboot, there are neither records nor
 * attachments.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { removeQuietly } from "../../base/files/io.ts";
import { isSameFile } from "../../base/files/same_file.ts";
import { findValue, isObject } from "../../base/json/json.ts";
import type { Call } from "../../cni/plugin.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Fd } from "../../ffi/file/fd.ts";
import {
  O_APPEND,
  O_CLOEXEC,
  O_CREAT,
  O_EXCL,
  O_RDWR,
  O_TRUNC,
} from "../../ffi/file/open_flags.ts";
import * as libc from "../../ffi/libc.ts";
import type { PluginConf } from "../../libcni/conf.ts";
import {
  appendState,
  readStates,
  type StepsState,
} from "../../libcni/steps.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { stableName } from "../parts/owner/stable_name.ts";

/** Directory of the records. */
export const DIRECTORY = "/run/cni/chain";

/** The attachment of a chain. */
export interface Recorded
  extends Pick<Call, "network" | "args" | "stdin" | "log" | "signal"> {
  /** The plugins of the chain. */
  readonly plugins: readonly PluginConf[];
  /** Directory of the records; {@linkcode DIRECTORY} if undefined. */
  readonly directory?: string | undefined;
}

/** The input of a call in its record. */
export interface RecordedInput {
  readonly network: string;
  /** The CNI_* variables that DEL needs. */
  readonly env: Readonly<Record<string, string>>;
  /** The configuration on stdin. */
  readonly config: string;
}

/**
 * Returns the path of an attachment's record. Several chains of a network have
 * different plugins, even if one chain contains the other.
 */
export function recordPathOf(recorded: Recorded): string {
  const { containerId, ifName, network } = attachmentOf(recorded);
  const { directory = DIRECTORY, plugins } = recorded;
  const types = JSON.stringify(listTypes(plugins.map((one) => one.document)));
  return join(directory, stableName("", network, containerId, ifName, types));
}

/** Lists the types of plugins, including the types of plugins in nested chains. */
function listTypes(documents: readonly unknown[]): unknown[] {
  return documents.filter(isObject).map((document) => {
    const type = findValue(document, "type");
    const plugins = findValue(document, "plugins");
    return Array.isArray(plugins) ? [type, ...listTypes(plugins)] : type;
  });
}

/** An open record. */
export class RecordFile implements Disposable {
  readonly #recorded: Recorded;
  readonly #fd: Fd;
  /** Whether the file contains the input. */
  #isBegun = false;
  /** Whether the file contains lines that must be removed first. */
  #isDamaged = false;
  #isLost = false;
  readonly path: string;

  private constructor(recorded: Recorded, path: string, fd: Fd) {
    this.#recorded = recorded;
    this.path = path;
    this.#fd = fd;
  }

  /**
   * Creates an empty record.
   *
   * @returns Undefined if the record exists
   * @throws {Error} If it cannot be created
   */
  static create(recorded: Recorded): RecordFile | undefined {
    checkChange();
    const path = recordPathOf(recorded);
    const flags = O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC;
    const open = (): RecordFile => {
      const fd = new Fd(libc.open(path, flags, "open", 0o600));
      return new RecordFile(recorded, path, fd);
    };
    try {
      return open();
    } catch (error) {
      if (isErrno(error, "EEXIST")) return undefined;
      if (!isErrno(error, "ENOENT")) throw error;
    }
    // The first record since the machine booted.
    const { directory = DIRECTORY } = recorded;
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    return open();
  }

  /**
   * Opens a record.
   *
   * @throws {SyscallError} ENOENT, EACCES
   */
  static open(recorded: Recorded): RecordFile {
    const path = recordPathOf(recorded);
    const fd = libc.open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    return new RecordFile(recorded, path, new Fd(fd));
  }

  /** The descriptor, which this owns. */
  get fd(): number {
    return this.#fd.number;
  }

  /** Whether the path still leads to this file. */
  get isInPlace(): boolean {
    return isSameFile(this.path, this.#fd.path);
  }

  /** When it was last changed. */
  get since(): Date | null {
    return Deno.statSync(this.#fd.path).mtime;
  }

  /**
   * Reads the last state; undefined if the record is empty or damaged. The next
   * written state then replaces it.
   */
  read(): StepsState | undefined {
    const state = readRecord(this.#fd.path)?.state;
    this.#isBegun = state !== undefined;
    this.#isDamaged = !this.#isBegun;
    return state;
  }

  /** Writes a state, unless an earlier write failed; see {@linkcode appendState}. */
  write(state: StepsState): void {
    if (this.#isLost) return;
    const input = this.#isBegun ? [] : [this.#describeInput()];
    this.#isBegun = appendState(
      {
        path: this.path,
        log: this.#recorded.log,
        append: (bytes): void => {
          if (this.#isDamaged) this.#truncate();
          libc.writeWhole(this.fd, bytes);
        },
        remove: () => this.remove(),
      },
      state,
      ...input,
    );
    this.#isLost = !this.#isBegun;
  }

  #truncate(): void {
    const flags = O_RDWR | O_TRUNC | O_CLOEXEC;
    using _truncated = new Fd(libc.open(this.#fd.path, flags));
    this.#isDamaged = false;
  }

  #describeInput(): RecordedInput {
    const { network, args, stdin } = this.#recorded;
    return {
      network,
      env: {
        CNI_CONTAINERID: args.containerId,
        CNI_NETNS: args.netns,
        CNI_IFNAME: args.ifName,
        CNI_ARGS: args.args,
        CNI_PATH: args.path,
      },
      config: new TextDecoder().decode(stdin),
    };
  }

  /** Removes the file, unless its name now belongs to a different file. */
  remove(): void {
    if (this.isInPlace) this.removeNow();
  }

  /**
   * Removes the file with this name, without the two system calls that compare the
   * files. At worst, DEL runs too many plugins.
   */
  removeNow(): void {
    removeQuietly(this.path);
  }

  /** Closes it. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/** The content of a record. */
export interface ReadRecord {
  readonly input: RecordedInput;
  readonly state: StepsState;
}

/** Reads a record; undefined if it is empty or damaged. */
export function readRecord(path: string): ReadRecord | undefined {
  const { state, before: [input] = [] } = readStates(path) ?? {};
  return state && isInput(input) ? { input, state } : undefined;
}

function isInput(value: unknown): value is RecordedInput {
  return isObject(value) && typeof value["network"] === "string" &&
    typeof value["config"] === "string" && isObject(value["env"]);
}
