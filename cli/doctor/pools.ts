/**
 * Pools of addresses that are full.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { readSetAside } from "../../ipam/whereabouts/inspect.ts";
import { listCachedPlugins } from "../node/ipam_claims.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { countPools } from "../node/pools.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import { formatTime } from "../../base/time.ts";

/** A pool with less than a tenth left is nearly full. */
const NEARLY_FULL_SHARE = 10n;

function findFullPools(node: NodeReader): Findings {
  return countPools(node).flatMap(
    ({ network, path, subnets, used, all, directory }) => {
      const free = all - used;
      if (free * NEARLY_FULL_SHARE > all) return [];
      const make = free <= 0n ? error : warning;
      return [
        make(
          `"${network}" has ${free} of ${all} addresses of ${
            subnets.join(", ")
          } left; the leases are in "${directory}"`,
          free <= 0n
            ? "no further container of that network starts"
            : "soon no further container of that network starts",
          {
            command: node.cni("gc --orphans --yes"),
            advice:
              "if there are no orphans, the range is too small: enlarge it " +
              `in ${path}`,
            look: node.cni("gc --orphans"),
          },
        ),
      ];
    },
  );
}

/** Finds networks that have no free address except persistent addresses. */
function findPersistentPools(node: NodeReader): Findings {
  return countPools(node).flatMap(
    ({ network, path, subnets, used, persistent, all }) => {
      const count = BigInt(persistent.length);
      if (count === 0n || used + count < all) return [];
      return [warning(
        `"${network}" has no free address of ${subnets.join(", ")}: ${count} ` +
          `of ${all} are reserved for pods that do not exist`,
        "each new pod takes the address that has been unused for the longest " +
          "time, and the pod of that name gets a different address",
        {
          advice: `enlarge the range, or shorten stayTime, in ${path}`,
          look: node.cni(shell`networks ${network}`),
        },
      )];
    },
  );
}

/** Finds addresses that ADD has set aside, on this node and in the cluster. */
async function findSetAside(node: NodeReader): Promise<Findings> {
  const onNode = countPools(node).flatMap(({ network, path, setAside }) =>
    setAside.map((one) => ({
      ...one,
      network,
      place: path,
      look: node.cni(shell`networks ${network}`),
    }))
  );
  const plugins = [
    ...node.networks.flatMap(({ name: network, plugins }) =>
      plugins.map(({ document }) => ({ network, document }))
    ),
    ...node.attachments.flatMap(({ network, config }) =>
      listCachedPlugins(config).map(({ document }) => ({ network, document }))
    ),
  ];
  const inCluster = await readSetAside(plugins, node.env, node.signal);
  return [
    ...onNode,
    ...inCluster.map(({ pool, ...one }) => ({
      ...one,
      place: `the configuration of IPPool ${pool}`,
      look: "cni cluster-gc --dry-run",
    })),
  ].map(({ network, address, mac, until, place, look }) =>
    warning(
      `"${network}" does not use ${address} until ${formatTime(until)}: ` +
        `${mac} has it`,
      "no container gets the address while another one is free",
      {
        advice:
          "remove the address from that machine, or exclude it from the " +
          `range in ${place}`,
        look,
      },
    )
  );
}

/** Checks of pools. */
export const POOL_CHECKS: readonly Check[] = [
  {
    code: "CNI0510",
    name: "pool-full",
    finds: "a network has few or no addresses left",
    effect: "No more containers of that network start.",
    cause:
      "There are more containers than addresses, or leases of deleted containers.",
    howToInspect: "`cni networks`, `cni gc --orphans`.",
    howToFix: "`cni gc --orphans --yes`, or configure a larger range.",
    run: findFullPools,
  },
  {
    code: "CNI0512",
    name: "pool-staying",
    finds: "a network has no free address except persistent addresses of pods",
    effect:
      "Each new pod takes the address that has been unused for the longest time.",
    cause:
      "More pod names are used within `stayTime` than there are addresses, as with Jobs and Deployments, whose pods never reuse a name.",
    howToInspect: "`cni networks NAME`.",
    howToFix:
      "Configure a larger range, a shorter `stayTime`, or a network without `stay` for such pods.",
    run: findPersistentPools,
  },
  {
    code: "CNI0513",
    name: "address-set-aside",
    finds: "another machine has an address of a network's range",
    effect: "The range has one address less for ten minutes.",
    cause:
      "The range overlaps with addresses that a DHCP server or an administrator gives to machines on the same network.",
    howToInspect:
      "`cni networks NAME`, or `cni cluster-gc --dry-run` with whereabouts: both print the MAC.",
    howToFix:
      "Exclude the address from the range, or remove it from the machine.",
    run: findSetAside,
  },
];
