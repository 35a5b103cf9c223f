/**
 * What a plugin is, and what it is given.
 *
 * @module
 */

import type { CmdArgs, Command } from "./args.ts";
import type { DeferredLinks } from "./deferred_links.ts";
import type { Delegate } from "./invoke/delegate.ts";
import type { DispatchInput } from "./invoke/invoker.ts";
import type { JsonObject, Schema } from "./json.ts";
import type { Log } from "./log.ts";
import type { Result } from "./result.ts";
import type { NetConf, ValidAttachment } from "./types.ts";

/** A value that is there now or later: kernel-only plugins need no promise. */
export type MaybePromise<T> = T | Promise<T>;

/**
 * What a plugin runs other plugins with if it does so as a runtime does, with
 * configurations of its own: the options of a `NetworkRuntime`.
 */
export type RunningContext =
  & Pick<DispatchInput, "env" | "invoker" | "hostNetns" | "onProcess">
  & Required<Pick<DispatchInput, "onStderr">>;

/**
 * What another plugin has answered, to be printed to the letter: in its own
 * version, with keys that nobody knows.
 */
export interface ForeignResult {
  /** The result in the shape of the version that it names. */
  readonly document: JsonObject;
}

/** One call of a plugin: all that it may know. */
export interface Call<Config extends NetConf = NetConf> {
  /** Which operation it is. */
  readonly command: Command;
  /** The CNI_* variables. */
  readonly args: CmdArgs;
  /** The configuration, decoded by the plugin's schema. */
  readonly config: Config;
  /** The configuration as it was given, byte for byte. */
  readonly stdin: Uint8Array;
  /** Name of the network. */
  readonly network: string;
  /** The configuration's cniVersion, one of the plugin's. */
  readonly cniVersion: string;
  /**
   * Result of the plugin before this one in the chain (ADD), or of the whole
   * chain (CHECK, DEL); undefined if there is none. Decoded on first use.
   *
   * @throws {CniError} 6 or 7 if it is no valid result
   */
  readonly prevResult: Result | undefined;
  /**
   * GC: the attachments that are to stay; undefined if the runtime does not
   * say, and then nothing is known. Decoded on first use.
   *
   * @throws {CniError} 7 if the list is malformed
   */
  readonly validAttachments: readonly ValidAttachment[] | undefined;
  /** Path of the namespace that stands for the host: the process's own. */
  readonly hostNetns: string;
  /** The configuration's `ipam` plugin. Fails on use if there is none. */
  readonly ipam: Delegate;
  /** Another plugin, given this call's configuration. */
  delegate(type: string): Delegate;
  /** For a plugin that is a runtime itself, as multus is. */
  readonly running: RunningContext;
  /**
   * DEL: where links can be left that the next plugin may delete together with
   * its own; undefined if nobody would. Source: the group of links that
   * RTM_DELLINK takes, net/core/rtnetlink.c `rtnl_group_dellink`.
   */
  readonly deferredLinks: DeferredLinks | undefined;
  /** When to give up on other plugins; undefined if there is no hurry. */
  readonly signal: AbortSignal | undefined;
  /** Writes to stderr. */
  readonly log: Log;
}

/**
 * A CNI plugin: a pure value. It reads no environment and no stdin, prints
 * nothing, never exits and keeps no state between calls.
 *
 * An operation that is left out succeeds and does nothing.
 */
export interface Plugin<Config extends NetConf = NetConf> {
  /** The `type` in configurations and the executable's name. */
  readonly name: string;
  /** The versions of the specification that it serves. */
  readonly versions: readonly string[];
  /**
   * What it says of itself where no command is given. Left out, it is its name
   * and the release of these plugins; if it is "", no command is an error.
   */
  readonly about?: string;
  /**
   * Returns the schema that decodes the configuration. It may be loaded when it
   * is asked for, since VERSION needs none.
   */
  readonly configSchema: () => MaybePromise<Schema<Config>>;
  /** Attaches the container. Undoes everything if it fails. */
  add?(call: Call<Config>): MaybePromise<Result | ForeignResult>;
  /** Throws unless the attachment is as ADD left it. */
  check?(call: Call<Config>): MaybePromise<void>;
  /** Detaches the container; succeeds if there is nothing to detach. */
  del?(call: Call<Config>): MaybePromise<void>;
  /** Removes what belongs to attachments that are no longer valid. */
  gc?(call: Call<Config>): MaybePromise<void>;
  /** Throws code 50 or 51 if ADD could not work. */
  status?(call: Call<Config>): MaybePromise<void>;
}

/** Types a plugin by its schema. */
export function definePlugin<Config extends NetConf>(
  plugin: Plugin<Config>,
): Plugin<Config> {
  return plugin;
}
