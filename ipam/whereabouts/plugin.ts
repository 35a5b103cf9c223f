/**
 * whereabouts: addresses that are unique in the cluster, recorded in custom
 * resources of Kubernetes.
 *
 * It writes the same objects and records as the reference implementation, so a
 * cluster may use both. Nothing elects a leader: a write tests the key that it
 * changes, and the API server decides. An ADD takes three requests, a DEL two.
 *
 * Source: github.com/k8snetworkplumbingwg/whereabouts v0.9.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { unlessUnreachable } from "../../base/files/io.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { NotedClaim } from "./claims/ipam_claim.ts";
import type { WhereaboutsConfig } from "./schema.ts";
import type { OpenClient, Session } from "./session.ts";
import type { WhereaboutsCall } from "./settings.ts";

/** Options of {@linkcode createWhereabouts}. */
export interface WhereaboutsOptions {
  /** Opens clients; a daemon keeps its connections between calls. */
  readonly openClient?: OpenClient | undefined;
  /** Receives each IPAMClaim whose addresses a pod gets. */
  readonly onClaim?: ((claim: NotedClaim) => void) | undefined;
}

/** Creates the plugin. */
export function createWhereabouts(
  { openClient, onClaim }: WhereaboutsOptions = {},
): Plugin<WhereaboutsConfig> {
  const run = async <T>(
    call: WhereaboutsCall,
    command: (session: Session) => Promise<T>,
  ): Promise<T> => {
    const { openOwnClient, withSession } = await import("./session.ts");
    const open = openClient ?? openOwnClient;
    return await withSession(
      call,
      open,
      (session) => command({ ...session, onClaim }),
    );
  };
  return definePlugin({
    name: "whereabouts",
    versions: SPEC_VERSIONS,
    configSchema: async () => (await import("./schema.ts")).whereaboutsSchema(),

    async add(call): Promise<Result> {
      const { allocate } = await import("./add.ts");
      return await run(call, allocate);
    },

    async check(call): Promise<void> {
      const { checkRecords } = await import("./check.ts");
      await run(call, checkRecords);
    },

    async del(call): Promise<void> {
      if (!isConfigured(call, await import("./settings.ts"))) return;
      const { release } = await import("./del.ts");
      await run(call, release);
    },

    async gc(call): Promise<void> {
      if (!isConfigured(call, await import("./settings.ts"))) return;
      const { releaseStaleAttachments } = await import("./del.ts");
      await run(call, releaseStaleAttachments);
    },

    async status(call): Promise<void> {
      const { checkPoolAccess } = await import("./check.ts");
      await run(call, checkPoolAccess);
    },
  });
}

/**
 * Reports whether the configuration names a cluster, by a kubeconfig that
 * exists. After an uninstallation it does not, and pods must still be able to
 * end. Their allocation files remain, so a later GC can release the addresses.
 */
function isConfigured(
  { config, log }: WhereaboutsCall,
  { readSettings, NotConfiguredError }: typeof import("./settings.ts"),
): boolean {
  try {
    const { kubeconfig } = readSettings(config);
    if (unlessUnreachable(() => Deno.statSync(kubeconfig))) return true;
    const problem = `the kubeconfig "${kubeconfig}" does not exist`;
    log.warn("Addresses are not released", { problem });
  } catch (error) {
    if (!(error instanceof NotConfiguredError)) throw error;
    log.warn("Addresses are not released", { problem: describeError(error) });
  }
  return false;
}

/** The plugin. */
export const whereabouts: Plugin<WhereaboutsConfig> = createWhereabouts();
