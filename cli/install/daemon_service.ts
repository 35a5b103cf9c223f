/**
 * The node daemon as a service of systemd.
 *
 * Source: systemd.unit(5), systemctl(1).
 *
 * @module
 */

import { deadline, JoinedSignal } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import {
  ifPossible,
  removeIfThere,
  removeQuietly,
  withIoFailure,
} from "../../base/files/io.ts";
import { replaceFile } from "../../base/files/replace.ts";
import { findFileId, isSameFile } from "../../base/files/same_file.ts";
import unitOfProject from "../../deploy/daemon/cni-daemon.service" with {
  type: "text",
};
import { findDaemonProcess } from "../node/node_daemon.ts";
import { runsSystemd } from "../node/systemd.ts";

/** The unit. */
const NAME = "cni-daemon.service";

/**
 * Its file, where units of the node are. The units of distributions are in
 * /usr.
 */
export const UNIT_PATH = `/etc/systemd/system/${NAME}`;

/** What the unit runs. */
const COMMAND_LINE = /^ExecStart=(\S+) daemon\b/m;

/** systemd itself, in a root in which it might not run. */
const PROGRAMS = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];

/** Time limit of systemctl, in ms. systemd ends a start that takes 90 s. */
const LIMIT_MS = 120_000;

/**
 * The directory of the daemon's sockets, and what a stopped daemon leaves there: its
 * lock file, and the directory of private locks, which is removed if it is empty.
 */
const SOCKET_DIR = "/run/cni", REMAINS = [".lock", "locks"];

/** The change to the service. */
export type ServiceChange =
  | "started"
  | "restarted"
  /** Its unit is in place, in a root in which systemd does not run. */
  | "unit installed"
  | "unchanged"
  /** An administrator has disabled it. */
  | "disabled"
  | "stopped"
  | "removed";

/**
 * Explains `unit installed`: who starts the daemon of an executable.
 *
 * @param pid A daemon that runs already
 */
export function noteNotStarted(executable: string, pid?: number): string {
  if (pid !== undefined) {
    return `A node daemon is already running, process ${pid}: systemd, which starts ` +
      "the daemon at boot, does not run here and did not start it";
  }
  return "The node daemon is not started: systemd, which starts it at boot, " +
    `does not run here. To start it now: ${executable} daemon --detach ` +
    "2>>/var/log/cni-daemon.log";
}

/** Explains `running`: how to end a daemon. */
export function noteStillRuns(pid: number): string {
  return "The node daemon is still running: systemd did not start it. To stop it: " +
    `kill ${pid}, or stop the program that runs it`;
}

/** Explains `running` after an installation: who could run the daemon instead. */
export function noteLeftAlone(executable: string, pid: number): string {
  return `A node daemon is already running, process ${pid}, which systemd did not ` +
    "start: no other daemon was started. To have systemd run the daemon, stop the " +
    `program that runs that process, and run: ${executable} daemon enable`;
}

/** How to restart a daemon that systemd does not run. */
export const RESTART_POD =
  "delete this node's pod of the DaemonSet that runs the daemon or, without a " +
  "DaemonSet, run cni daemon enable";

/** The service's state in systemd. */
export interface ServiceState {
  /** `loaded`, `not-found`, `masked` or `bad-setting`. */
  readonly load: string;
  /** `active`, `inactive`, `activating` or `failed`. */
  readonly active: string;
  /** `enabled` or `disabled`; "" without a unit. */
  readonly file: string;
  /** 0 if it does not run. */
  readonly pid: number;
}

/** Whom the service runs, and since when that is a file at this path. */
export interface ServiceOptions {
  /** Absolute path of `cni`. */
  readonly executable: string;
  /** Whether there has been another file at the path. */
  readonly isReplaced: boolean;
}

/** The service of this root. */
export class DaemonService {
  readonly #signal: AbortSignal;
  /** Whether systemd runs this node, in this root. */
  readonly isLive: boolean;

  private constructor(isLive: boolean, signal: AbortSignal) {
    [this.isLive, this.#signal] = [isLive, signal];
  }

  /** Finds the service; undefined if this root has no systemd. */
  static find(signal: AbortSignal): DaemonService | undefined {
    const isLive = runsSystemd();
    const isThere = isLive ||
      PROGRAMS.some((path) => findFileId(path) !== undefined);
    return isThere ? new DaemonService(isLive, signal) : undefined;
  }

  /** Path of the executable that the unit runs; undefined without a unit. */
  get executable(): string | undefined {
    const text = ifPossible(() => Deno.readTextFileSync(UNIT_PATH)) ?? "";
    return COMMAND_LINE.exec(text)?.[1];
  }

  /**
   * Reads its state.
   *
   * @throws {CniError} 999 if systemd does not answer
   */
  async read(): Promise<ServiceState> {
    const keys = ["LoadState", "ActiveState", "UnitFileState", "MainPID"];
    const text = await this.#systemctl("show", NAME, `--property=${keys}`);
    const values = Object.fromEntries(
      text.trim().split("\n").map((line) => line.split(/=(.*)/, 2)),
    );
    const [load = "", active = "", file = "", pid] = keys
      .map((key) => values[key]);
    return { load, active, file, pid: Number(pid) };
  }

  /**
   * Reports whether systemd runs the daemon of this node, or would: otherwise another
   * program may run one, such as a pod of a DaemonSet, and a second would take its
   * sockets.
   *
   * @throws {CniError} 999 if systemd does not answer
   */
  async isInUse(): Promise<boolean> {
    const { file, pid } = await this.read();
    return /^(enabled|static)/.test(file ?? "") || pid !== 0;
  }

  /**
   * Finds a daemon that another program runs, such as a pod of a DaemonSet, on a
   * node on which systemd runs none and has no unit of this project.
   *
   * @throws {CniError} 999 if systemd does not answer
   */
  async findOther(): Promise<number | undefined> {
    if (!this.isLive || this.executable !== undefined) return undefined;
    return await this.isInUse()
      ? undefined
      : await findDaemonProcess(this.#signal);
  }

  /**
   * Returns what {@linkcode update} would do.
   *
   * @throws {CniError} 5 if the unit is another program's, 999 if systemd does not answer
   */
  async compare(options: ServiceOptions): Promise<ServiceChange> {
    const { executable, isReplaced } = options;
    withIoFailure(`write "${UNIT_PATH}"`, requireOwnUnit);
    const isUnitThere = isUnit(formatUnit(executable));
    if (!this.isLive) {
      return isUnitThere || isMasked() ? "unchanged" : "unit installed";
    }
    const { load, file, pid } = await this.read();
    if (load === "masked" || file === "disabled") return "disabled";
    if (pid === 0) return "started";
    const isCurrent = isUnitThere && !isReplaced &&
      isSameFile(`/proc/${pid}/exe`, executable);
    return isCurrent ? "unchanged" : "restarted";
  }

  /**
   * Has the node run the daemon of an executable, unless an administrator has
   * disabled it. In a root in which systemd does not run, it runs from the next
   * boot on.
   *
   * @throws {CniError} 5 if the unit cannot be written, 999 if systemd refuses
   */
  async update(options: ServiceOptions): Promise<ServiceChange> {
    const change = await this.compare(options);
    if (change === "unchanged" || change === "disabled") return change;
    await this.enable(options.executable);
    return change;
  }

  /**
   * Writes the unit, enables it, and starts it again.
   *
   * @throws {CniError} 5 if the unit cannot be written, 999 if systemd refuses
   */
  async enable(executable: string): Promise<void> {
    const isNew = this.executable === undefined;
    writeUnit(formatUnit(executable));
    try {
      if (this.isLive) await this.#systemctl("daemon-reload");
      const root = this.isLive ? [] : ["--root=/"];
      await this.#systemctl(...root, "enable", NAME);
    } catch (error) {
      // Or it would look as if an administrator had disabled it.
      if (isNew) removeQuietly(UNIT_PATH);
      throw error;
    }
    if (this.isLive) await this.#systemctl("restart", NAME);
  }

  /**
   * Starts it again.
   *
   * @throws {CniError} 999 if systemd refuses, or is not what runs the daemon
   */
  async restart(): Promise<void> {
    if (!await this.isInUse()) {
      throw new CniError(
        ErrorCode.Internal,
        `Cannot restart the node daemon: ${NAME} is not enabled and does not ` +
          `run; ${RESTART_POD}`,
      );
    }
    await this.#systemctl("restart", NAME);
  }

  /**
   * Stops it, now and at the next boot. The unit stays.
   *
   * @throws {CniError} 999 if systemd refuses
   */
  async disable(): Promise<void> {
    await this.#systemctl(
      ...this.isLive ? ["disable", "--now"] : ["--root=/", "disable"],
      NAME,
    );
  }

  /**
   * Stops it, and removes the unit.
   *
   * @throws {CniError} 5 if the unit cannot be removed, 999 if systemd refuses
   */
  async remove(): Promise<void> {
    await this.disable();
    removeIfThere(UNIT_PATH);
    if (!this.isLive) return;
    await this.#systemctl("daemon-reload");
    for (const name of REMAINS) removeQuietly(`${SOCKET_DIR}/${name}`);
    // Other programs might have files in it.
    removeQuietly(SOCKET_DIR);
  }

  async #systemctl(...args: readonly string[]): Promise<string> {
    using limit = new JoinedSignal(deadline(LIMIT_MS), this.#signal);
    const command = new Deno.Command("systemctl", {
      args: [...args],
      env: { LC_ALL: "C" },
      stdin: "null",
      signal: limit.signal,
    });
    const fail = (why: string, options: ErrorOptions = {}): CniError =>
      new CniError(
        ErrorCode.Internal,
        `Cannot run "systemctl ${args.join(" ")}"${why}`,
        options,
      );
    let output: Deno.CommandOutput;
    try {
      output = await command.output();
    } catch (cause) {
      throw fail("", { cause });
    }
    const { success, code, stdout, stderr } = output;
    const decoder = new TextDecoder();
    if (success) return decoder.decode(stdout);
    const why = decoder.decode(stderr).trim().split("\n")[0];
    throw fail(`: ${why || `it exited with ${code}`}`);
  }
}

/** Characters that have no special meaning to systemd. */
const PLAIN = /^\/[\w./+@:,=-]+$/;

/** @throws {CniError} 5 if systemd would read the path in another way */
function formatUnit(executable: string): string {
  if (PLAIN.test(executable)) {
    return unitOfProject.replace(/^(ExecStart=)\S+/m, `$1${executable}`);
  }
  throw new CniError(
    ErrorCode.IoFailure,
    `Cannot write a unit for "${executable}": the path has characters that are special ` +
      "to systemd",
  );
}

function isUnit(text: string): boolean {
  return ifPossible(() => Deno.readTextFileSync(UNIT_PATH)) === text;
}

/** Reports whether an administrator has put a link to /dev/null in place. */
function isMasked(): boolean {
  return ifPossible(() => Deno.readLinkSync(UNIT_PATH)) === "/dev/null";
}

/** @throws {Error} If another program has a unit of this name, which runs no `cni daemon` */
function requireOwnUnit(): void {
  const text = ifPossible(() => Deno.readTextFileSync(UNIT_PATH))?.trim() ?? "";
  if (text === "" || COMMAND_LINE.test(text)) return;
  throw new Error("it is the unit of another program");
}

/** @throws {CniError} 5 if it cannot be written, is masked, or another program's */
function writeUnit(text: string): void {
  try {
    if (isMasked()) throw new Error(`it is masked: systemctl unmask ${NAME}`);
    requireOwnUnit();
    replaceFile(UNIT_PATH, new TextEncoder().encode(text), 0o644);
  } catch (cause) {
    throw new CniError(ErrorCode.IoFailure, `Cannot write "${UNIT_PATH}"`, {
      cause,
    });
  }
}
