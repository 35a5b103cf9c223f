/**
 * How a plugin is run: its input, its surroundings and its output.
 *
 * @module
 */

import type { Environment } from "../args.ts";
import type { DeferredLinks } from "../deferred_links.ts";
import type { Result } from "../result.ts";

/** The input of a plugin run: everything it may know about the world. */
export interface DispatchInput {
  /** The CNI_* variables and all others. */
  readonly env: Environment;
  /** Reads the whole configuration. Called only if the command needs it. */
  readonly stdin: () => Uint8Array;
  /** Runs other plugins for this one. */
  readonly invoker: Invoker;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Receives log text as it is written, in addition to {@linkcode DispatchOutput.stderr}. */
  readonly onStderr?: (text: string) => void;
  /**
   * Receives the result of ADD, in addition to {@linkcode DispatchOutput.stdout},
   * if that holds all of it. Saves a caller in this process from parsing it.
   */
  readonly onResult?: (result: Result) => void;
  /**
   * When to give up on the plugins that this one calls. The plugin itself finishes
   * its step, because half a step would be worse.
   */
  readonly signal?: AbortSignal | undefined;
  /** DEL of a list: the links that its plugins delete together. */
  readonly deferredLinks?: DeferredLinks | undefined;
  /** Called before a process is started for another plugin. */
  readonly onProcess?: (() => Promise<void>) | undefined;
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

/** One run of another plugin. */
export interface Invocation {
  /** The plugin's type: a file name to find in CNI_PATH. */
  readonly type: string;
  /** The whole environment, CNI_COMMAND included. */
  readonly env: Environment;
  /** The configuration, byte for byte. */
  readonly stdin: Uint8Array;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Receives the plugin's log. */
  readonly onStderr: (text: string) => void;
  /** Receives the result of ADD if it is available without parsing the output. */
  readonly onResult?: (result: Result) => void;
  /** When to give up. A process is then killed with its children. */
  readonly signal?: AbortSignal | undefined;
  /** The links that the plugins of a list delete together. */
  readonly deferredLinks?: DeferredLinks | undefined;
  /** Called before a process is started for the plugin, or for one that it calls. */
  readonly onProcess?: (() => Promise<void>) | undefined;
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
