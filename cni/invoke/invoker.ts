/**
 * How a plugin is run: by whom, with what, to what effect.
 *
 * @module
 */

import type { Environment } from "../args.ts";
import type { DeferredLinks } from "../deferred_links.ts";
import type { Plugin } from "../plugin.ts";
import type { Result } from "../result.ts";

/** What a plugin is run with; all it may know of the world. */
export interface DispatchInput {
  /** The CNI_* variables and all others. */
  readonly env: Environment;
  /** Reads the configuration to its end. Not called where none is needed. */
  readonly stdin: () => Uint8Array;
  /** Runs other plugins for this one. */
  readonly invoker: Invoker;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Takes log text as it is written, besides {@linkcode DispatchOutput.stderr}. */
  readonly onStderr?: (text: string) => void;
  /**
   * Takes the result of ADD, besides {@linkcode DispatchOutput.stdout}, if that
   * holds all of it: a caller in this process need not read it again.
   */
  readonly onResult?: (result: Result) => void;
  /**
   * When to give up on the plugins that this one calls. What it does itself it
   * finishes, for half of it would be worse.
   */
  readonly signal?: AbortSignal | undefined;
  /** DEL of a list: what its plugins leave to each other to delete. */
  readonly deferredLinks?: DeferredLinks | undefined;
  /** Called before a process is started for another plugin. */
  readonly onProcess?: (() => Promise<void>) | undefined;
}

/** What running a plugin came to. */
export interface DispatchOutput {
  /** One JSON document, or nothing. */
  readonly stdout: string;
  /** All log text. */
  readonly stderr: string;
  /** 0 for success. */
  readonly exitCode: 0 | 1;
}

/** Runs a plugin on given input. */
export type Dispatch = (
  plugin: Plugin,
  input: DispatchInput,
) => Promise<DispatchOutput>;

/** One run of another plugin. */
export interface Invocation {
  /** The plugin's type, a file name to be found in CNI_PATH. */
  readonly type: string;
  /** The whole environment, CNI_COMMAND included. */
  readonly env: Environment;
  /** The configuration, byte for byte. */
  readonly stdin: Uint8Array;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Takes what the plugin logs. */
  readonly onStderr: (text: string) => void;
  /** Takes the result of ADD if it is at hand and need not be read from what was printed. */
  readonly onResult?: (result: Result) => void;
  /** When to give up: a process is killed then, with all that it started. */
  readonly signal?: AbortSignal | undefined;
  /** What the plugins of a list leave to each other to delete. */
  readonly deferredLinks?: DeferredLinks | undefined;
  /** Called before a process is started for the plugin, or for one that it calls. */
  readonly onProcess?: (() => Promise<void>) | undefined;
}

/** Runs other plugins by name. */
export interface Invoker {
  /**
   * Runs a plugin to its end.
   *
   * @returns What it printed
   * @throws {CniError} The plugin's own error, or why it could not be run
   */
  invoke(invocation: Invocation): Promise<string>;
}

/** Finds one of our own plugins by type; undefined if it is not one. */
export type PluginLookup = (type: string) => Promise<Plugin> | undefined;
