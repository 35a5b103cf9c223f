/**
 * flannel: connects containers to the subnet that flanneld has leased for this node,
 * with a delegate plugin.
 *
 * ```
 * flanneld ──▶ /run/flannel/subnet.env
 *                       │
 * runtime ──▶ flannel ──┴──▶ bridge ──▶ host-local
 *                │   configuration with the node's subnet, MTU and ipMasq
 *                ▼
 *   /var/lib/cni/flannel/CONTAINER: the same configuration, for CHECK and DEL
 * ```
 *
 * The remaining objects after DEL depend on the delegate; for bridge, this is the
 * bridge.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible, removeIfThere } from "../../base/files/io.ts";
import {
  checkCaller,
  type DelegatedPlugin,
  delegateTo,
} from "../../cni/invoke/delegate.ts";
import { findExecutable, splitPath } from "../../cni/invoke/find.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import { Rollback, type TearDownStep, tryAll } from "../../base/rollback.ts";
import { listedTest } from "../../cni/config/types.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { readablePrevResult } from "../parts/sandbox/prev_result.ts";
import { buildDelegateConf, type DelegateConf } from "./delegate_conf.ts";
import {
  encodeSaved,
  type SavedConf,
  SavedConfs,
  writeSaved,
} from "./saved_conf.ts";
import type { FlannelConfig } from "./schema.ts";
import { readSubnetEnv, SUBNET_FILE } from "./subnet_env.ts";

type FlannelCall = Call<FlannelConfig>;

/** The plugin. Source: flannel-io/cni-plugin flannel.go, flannel_linux.go. */
export const flannel: Plugin<FlannelConfig> = definePlugin({
  name: "flannel",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).flannelSchema(),

  async add(call): Promise<Result> {
    const conf = buildForNode(call);
    // A delegate that cannot be run has nothing to undo.
    checkCaller(conf.type, flannel.name);
    findExecutable(conf.type, splitPath(call.args.path));
    await using rollback = new Rollback(call.log);

    const owner = attachmentOf(call);
    const saved = new SavedConfs(call.config.dataDir);
    const earlier = saved.find(owner);
    const path = earlier?.path ?? saved.freePath(owner);
    rollback.onFailure("undo ADD of the delegate", async () => {
      // An earlier ADD's attachment is kept, with its configuration for DEL.
      if (earlier !== undefined) return writeSaved(path, earlier.bytes);
      await release(call, { path, conf });
    });
    writeSaved(path, encodeSaved(conf, owner.ifName));
    const result = await delegate(call, conf).add();
    rollback.commit();
    return result;
  },

  async check(call): Promise<void> {
    await savedDelegate(call).check();
  },

  async repair(call): Promise<void> {
    await savedDelegate(call).repair();
  },

  async del(call): Promise<void> {
    const saved = new SavedConfs(call.config.dataDir).find(attachmentOf(call));
    if (saved === undefined && readablePrevResult(call) === undefined) return;
    if (saved !== undefined && saved.conf === undefined) {
      const what = "Ignoring a saved configuration that is damaged";
      call.log.warn(what, { path: saved.path });
    }
    const conf = withPrevResult(call, saved?.conf ?? buildForRelease(call));
    await release(call, { path: saved?.path, conf });
  },

  async status(call): Promise<void> {
    await delegate(call, buildForStatus(call)).status();
  },

  async gc(call): Promise<void> {
    await tryAll([
      ["release stale containers", () => tryAll(listStale(call))],
      ["run GC of the delegate", () => collectGarbage(call)],
    ]);
  },
});

function buildForNode(call: FlannelCall): DelegateConf {
  const env = readSubnetEnv(call.config.subnetFile || SUBNET_FILE);
  return buildDelegateConf(call, env);
}

/**
 * Rebuilds the configuration that ADD saved, as far as the node still contains the
 * values.
 */
function buildForRelease(call: FlannelCall): DelegateConf {
  return ifPossible(() => buildForNode(call)) ?? buildDelegateConf(call);
}

/** Reports a problem of `subnet.env` with STATUS's error code. */
function buildForStatus(call: FlannelCall): DelegateConf {
  try {
    return buildForNode(call);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw new CniError(ErrorCode.PluginNotAvailable, error.message);
  }
}

/**
 * Returns the delegate with the configuration that ADD saved.
 *
 * @throws {Error} If the file cannot be read
 */
function savedDelegate(call: FlannelCall): DelegatedPlugin {
  const { cniVersion, config, args } = call;
  const saved = new SavedConfs(config.dataDir).find(attachmentOf(call));
  if (saved?.conf === undefined) {
    const what = `of container "${args.containerId}" for DEL`;
    throw new Error(`Cannot read the saved configuration ${what}`);
  }
  const conf = withPrevResult(call, { ...saved.conf, cniVersion });
  return delegate(call, conf);
}

/** Returns the delegate. Variables in `env` can select a different attachment. */
function delegate(
  { config, context, cniVersion, log }: FlannelCall,
  conf: DelegateConf,
  env: Readonly<Record<string, string>> = {},
): DelegatedPlugin {
  return delegateTo(conf.type, {
    caller: flannel.name,
    context: { ...context, env: { ...context.env, ...env } },
    stdin: encodeJson(conf),
    cniVersion,
    hasResult: config.prevResult !== undefined,
    log,
  });
}

/**
 * Adds the attachment's result, from which the delegate identifies the attachment's
 * links of the Go plugins.
 */
function withPrevResult(
  { config }: FlannelCall,
  conf: DelegateConf,
): DelegateConf {
  const prevResult = config.prevResult as JsonObject | undefined;
  return { ...conf, ...prevResult && { prevResult } };
}

/**
 * Lists DEL of each saved attachment that the runtime no longer lists. Attachments
 * that are newer than this call are kept, because the runtime's list might be older.
 */
function listStale(call: FlannelCall): TearDownStep[] {
  const { validAttachments, context, network } = call;
  if (validAttachments === undefined) return [];
  const isListed = listedTest(validAttachments);
  const containers = new Set(
    validAttachments.map(({ containerId }) => containerId),
  );
  const isValid = ({ containerId, ifName }: SavedConf): boolean =>
    ifName === undefined
      ? containers.has(containerId)
      : isListed({ containerId, ifName });
  const before = context.startedAt ?? new Date(performance.timeOrigin);
  const saved = new SavedConfs(call.config.dataDir).list(network, before);
  return saved.filter((one) => !isValid(one)).map((one) => [
    `release container "${one.containerId}"`,
    () => release(call, one, environmentOf(one)),
  ]);
}

/**
 * Returns the variables of a DEL as the runtime would have set them: runtimes name a
 * pod's first interface eth0.
 */
function environmentOf(
  { containerId, ifName = "eth0" }: SavedConf,
): Record<string, string> {
  return { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName, CNI_NETNS: "" };
}

/**
 * Runs DEL of the delegate with the saved configuration, then removes it.
 *
 * @param env Selects a different attachment
 */
async function release(
  call: FlannelCall,
  { path, conf }: { path: string | undefined; conf: DelegateConf },
  env?: Record<string, string>,
): Promise<void> {
  await delegate(call, conf, env).del();
  if (path !== undefined) removeIfThere(path);
}

/** Runs GC of the delegate with the runtime's list of attachments. */
async function collectGarbage(call: FlannelCall): Promise<void> {
  const keys = Object.entries(call.config as unknown as JsonObject);
  const valid = keys.filter(([key]) =>
    /^cni\.dev\/(valid-)?attachments$/i.test(key)
  );
  const conf = { ...buildForNode(call), ...Object.fromEntries(valid) };
  await delegate(call, conf).gc();
}
