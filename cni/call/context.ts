/**
 * How a plugin is run: its context, its input and its output.
 *
 * @module
 */

import type { CmdArgs } from "./args.ts";
import type { Conflict } from "../config/conflicts.ts";
import type { Ip } from "../../net/ip.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { Result } from "../result/result.ts";
import type { LinkDeletion } from "./link_deletion.ts";

/** What every plugin uses. */
export interface CallEnvironment {
  /** The CNI_* variables and all others. */
  readonly env: Environment;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Runs other plugins. */
  readonly invoker: Invoker;
}

/** Where a call logs. Plugins use `call.log`. */
export interface CallOutput {
  /** Receives log text as it is written; another process's line by line. */
  readonly onStderr: (text: string) => void;
  /**
   * Whether the node's log has a default place, so that stderr gets only errors.
   * Without it, all lines go to stderr, and to the log if one is configured.
   */
  readonly keepsLog?: boolean | undefined;
}

/** How long a call waits, and for what. Plugins that run other plugins use it. */
export interface CallControl {
  /**
   * When to give up on other plugins. A process is then killed with its children. A
   * plugin in this process finishes its step, because half a step would be worse.
   */
  readonly signal?: AbortSignal | undefined;
  /** When the call began; the start of the process if undefined. */
  readonly startedAt?: Date | undefined;
  /**
   * Called before a process is started for a plugin. If it returns a function, the
   * process is started by it.
   */
  readonly onProcess?:
    | ((starting: StartingPlugin) => Promise<Starter | void>)
    | undefined;
  /** Lets other calls run during a long wait; undefined if this call runs alone. */
  readonly yieldDuring?: YieldDuring | undefined;
  /**
   * Receives the address conflicts that plugins detect. Plugins that run as processes
   * only log conflicts.
   */
  readonly onConflict?: ((conflict: AddressConflict) => void) | undefined;
  /**
   * Called by an ADD that fails because its attachment already exists. The caller must
   * not undo such an ADD with DEL, which would detach the container.
   */
  readonly onAttached?: (() => void) | undefined;
}

/** An address that a container does not get because another machine uses it. */
export interface AddressConflict extends Conflict {
  /** Name of the container's network. */
  readonly network: string;
  /** Name of the container's interface. */
  readonly ifName: string;
  /** The address that the container gets in its place; undefined if ADD fails. */
  readonly instead: Ip | undefined;
}

/** What the plugins of a network list in one process share. */
export interface ListContext {
  /**
   * The arguments of the call that runs this plugin in the same process, which has
   * already checked CNI_NETNS; undefined if nothing has.
   */
  readonly caller?: Pick<CmdArgs, "netns"> | undefined;
  /**
   * Deletes links with the links of the list's other plugins, or of other calls;
   * undefined if the plugin is alone.
   */
  readonly linkDeletion?: LinkDeletion | undefined;
  /**
   * Whether DEL keeps the addresses, because DEL of a later plugin of the list failed,
   * and its rules might still refer to the addresses.
   */
  readonly keepsAddresses?: boolean | undefined;
}

/**
 * The context of a call: everything outside the configuration that its plugin may
 * use. A plugin that runs another plugin passes it on unchanged.
 */
export interface CallContext
  extends CallEnvironment, CallOutput, CallControl, ListContext {}

/**
 * Waits for an event that can take minutes, such as the answer of another program.
 * Other calls run during the wait. Before the function returns, it waits for a slot.
 */
export type YieldDuring = <T>(wait: () => Promise<T>) => Promise<T>;

/** A plugin that is about to be started as a process. */
export interface StartingPlugin extends Pick<Invocation, "env" | "stdin"> {
  /** Path of its executable. */
  readonly path: string;
}

/** Calls a function that starts a process and does not wait; returns its value. */
export type Starter = <T>(start: () => T) => T;

/**
 * The input of a plugin run: everything it may depend on. `onStderr` may be absent,
 * because {@linkcode DispatchOutput.stderr} has the same text.
 */
export interface DispatchInput
  extends
    Omit<CallContext, "onStderr">,
    Partial<Pick<CallContext, "onStderr">> {
  /** Reads the whole configuration. Called only if the command needs it. */
  readonly stdin: () => Uint8Array;
  /**
   * Reads what arrives immediately, for VERSION, to which many callers pass no
   * input; the same as `stdin` if undefined.
   */
  readonly stdinSoon?: () => Promise<Uint8Array>;
  /**
   * Receives the result of ADD, in addition to {@linkcode DispatchOutput.stdout},
   * if that holds all of it. Saves a caller in this process from parsing it.
   */
  readonly onResult?: (result: Result) => void;
  /** Receives the version that errors have from now on. */
  readonly onErrorVersion?: (cniVersion: string) => void;
}

/** The output of a plugin run. */
export interface DispatchOutput {
  /** One JSON document, or nothing. */
  readonly stdout: string;
  /** All log text. */
  readonly stderr: string;
  /** 0 for success. */
  readonly exitCode: 0 | 1;
}

/** One run of another plugin; the environment is that plugin's. */
export interface Invocation extends Omit<CallContext, "invoker"> {
  /** The plugin's type: a file name to find in CNI_PATH. */
  readonly type: string;
  /** The configuration, byte for byte. */
  readonly stdin: Uint8Array;
  /** Receives the result of ADD if it is available without parsing the output. */
  readonly onResult?: (result: Result) => void;
}

/** Runs other plugins by name. */
export interface Invoker {
  /**
   * Runs a plugin to its end.
   *
   * @returns Its output
   * @throws {CniError} The plugin's own error, or why it could not be run
   */
  invoke(invocation: Invocation): Promise<string>;
}
