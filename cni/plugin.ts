/**
 * Plugins and their calls.
 *
 * @module
 */

import type { MaybePromise } from "../base/waiting.ts";
import type { CmdArgs, Command } from "./call/args.ts";
import type { DelegatedIpam, DelegatedPlugin } from "./invoke/delegate.ts";
import type { JsonObject, Schema } from "../base/json/json.ts";
import type { Log } from "../base/log/log.ts";
import type { Result } from "./result/result.ts";
import type { CallContext } from "./call/context.ts";
import type { LinkDeletion } from "./call/link_deletion.ts";
import type { AttachmentId, NetConf } from "./config/types.ts";

/**
 * Another plugin's result, to be printed unchanged: in its own version, with its
 * unknown keys.
 */
export interface ForeignResult {
  /** The result in the shape of the version that it names. */
  readonly document: JsonObject;
}

/** One call of a plugin, with everything that the plugin may depend on. */
export interface Call<Config extends NetConf = NetConf>
  extends Pick<CallContext, "hostNetns" | "signal"> {
  /** The command. */
  readonly command: Command;
  /** The CNI_* variables. */
  readonly args: CmdArgs;
  /** The configuration, decoded by the plugin's schema. */
  readonly config: Config;
  /** The configuration as received, byte for byte. */
  readonly stdin: Uint8Array;
  /** Name of the network. */
  readonly network: string;
  /** The configuration's cniVersion, one of the plugin's. */
  readonly cniVersion: string;
  /**
   * Result of the previous plugin in the chain (ADD), or of the whole chain (CHECK,
   * DEL); undefined if absent. Decoded on first use.
   *
   * @throws {CniError} 6 or 7 if it is not a valid result
   */
  readonly prevResult: Result | undefined;
  /**
   * GC: the attachments to keep, including those that a plugin which is itself a
   * runtime has made; undefined if the runtime does not list them, which means they
   * are unknown. Read on first use.
   *
   * @throws {CniError} 7 if the list is malformed
   */
  readonly validAttachments: readonly AttachmentId[] | undefined;
  /** Deletes links together with links of other plugins and calls. */
  readonly linkDeletion: LinkDeletion;
  /** The configuration's `ipam` plugin. Fails on use if it is not configured. */
  readonly ipam: DelegatedIpam;
  /**
   * Another plugin.
   *
   * @param config Its configuration; this call's if undefined
   */
  delegate(type: string, config?: Uint8Array): DelegatedPlugin;
  /**
   * The context of this call, for plugins that are themselves runtimes: options of a
   * `NetworkRuntime`.
   */
  readonly context: CallContext;
  /** Writes to stderr. */
  readonly log: Log;
}

/** What {@linkcode Plugin.repair} may change. */
export interface RepairScope {
  /** Whether it also repairs the interface in the container. */
  readonly sandbox: boolean;
}

/**
 * A CNI plugin: a pure value. It reads no environment and no stdin, prints
 * nothing, never exits and keeps no state between calls.
 *
 * A missing operation succeeds and does nothing.
 */
export interface Plugin<Config extends NetConf = NetConf> {
  /** The `type` in configurations and the executable's name. */
  readonly name: string;
  /** The versions of the specification that it supports. */
  readonly versions: readonly string[];
  /**
   * Text to print when no command is given. Default: the name and the release of
   * these plugins. With "", a missing command is an error.
   */
  readonly about?: string;
  /**
   * Returns the schema that decodes the configuration. May load it lazily, because
   * VERSION does not need it.
   */
  readonly configSchema: () => MaybePromise<Schema<Config>>;
  /**
   * Answers questions from tools: call `answerTools` of this package with the
   * description in `metadata.ts`. Load both lazily: calls do not need them.
   *
   * @param question One of the questions in `metadata/tool_question.ts`
   */
  answerTools?(
    question: { readonly ask: string },
    plugin: Plugin,
  ): Promise<object>;
  /**
   * Whether the plugin caches attachments, as runtimes do. GC of other plugins keeps
   * these attachments, even if the runtime's list of valid attachments lacks them.
   */
  readonly isRuntime?: boolean;
  /** Attaches the container. Undoes everything if it fails. */
  add?(call: Call<Config>): MaybePromise<Result | ForeignResult>;
  /** Throws unless the attachment is as ADD left it. */
  check?(call: Call<Config>): MaybePromise<void>;
  /**
   * Restores what {@linkcode check} can find missing on the host, such as rules,
   * addresses and routes. Must be idempotent, and must not change what exists.
   * Receives the same call as CHECK.
   */
  repair?(call: Call<Config>, scope: RepairScope): MaybePromise<void>;
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
