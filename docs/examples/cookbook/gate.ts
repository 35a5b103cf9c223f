import {
  type Call,
  cidrSchema,
  CniError,
  definePlugin,
  ErrorCode,
  isErrno,
  netConf,
  type Result,
  runMain,
  SPEC_VERSIONS,
  stableName,
} from "@cni/plugins";
import {
  addChain,
  addTable,
  appendRule,
  decide,
  delTableOf,
  matchFamily,
  matchInputName,
  matchNetwork,
  Nftables,
  type Table,
} from "@cni/plugins/nftables";
import * as z from "zod/mini";

/** A chained plugin with nf_tables: the container cannot reach some networks. */
export const gate = definePlugin({
  name: "gate",
  // Older results do not name the interfaces.
  versions: SPEC_VERSIONS.filter((version) => version >= "0.3.0"),
  configSchema: () => netConf({ deny: z._default(z.array(cidrSchema()), []) }),

  add(call): Result {
    const { config, hostNetns, prevResult } = call;
    // The host's end is the interface that is not in a sandbox.
    const link = prevResult?.interfaces.find(({ sandbox }) => !sandbox)?.name;
    if (prevResult === undefined || link === undefined) {
      const why = "gate must be called after a plugin with a link on the host";
      throw new CniError(ErrorCode.InvalidNetworkConfig, why);
    }
    using nftables = Nftables.open(hostNetns);
    const table = tableOf(call);
    const base = { type: "filter", hook: "forward", priority: 0 } as const;
    // All or none: there is nothing to undo.
    nftables.commit([
      addTable(table, "by the plugin gate"),
      delTableOf(table),
      addTable(table, "by the plugin gate"),
      addChain(table, "forward", base),
      ...config.deny.map((cidr) =>
        appendRule(table, {
          chain: "forward",
          expressions: [
            ...matchInputName(link),
            ...matchFamily(cidr.ip.family),
            ...matchNetwork("destination", "==", cidr),
            decide("drop"),
          ],
        })
      ),
    ]);
    return prevResult;
  },

  check(call): void {
    using nftables = Nftables.open(call.hostNetns);
    const rules = nftables.listRules(tableOf(call), "forward");
    if (rules.length === call.config.deny.length) return;
    throw new Error(`The table "${tableOf(call).name}" has other rules`);
  },

  del(call): void {
    using nftables = Nftables.open(call.hostNetns);
    try {
      nftables.commit([delTableOf(tableOf(call))]);
    } catch (error) {
      if (!isErrno(error, "ENOENT")) throw error;
    }
  },
});

/** Each attachment has a table, which DEL finds by its name. */
function tableOf({ network, args }: Call): Table {
  const name = stableName("gate", network, args.containerId, args.ifName);
  return { family: "inet", name };
}

if (import.meta.main) await runMain(gate);
