/**
 * Resources of deleted containers.
 *
 * @module
 */

import {
  findOrphans,
  GRACE_MS,
  type Orphan,
  type OrphanSearchOptions,
  removeOrphans,
} from "../orphans/mod.ts";
import { createLog } from "../../base/log/log.ts";
import { throwAll } from "../../base/rollback.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { type Check, type Findings, listed, warning } from "./finding.ts";
import type { NodeReader } from "../node/node_reader.ts";

/** Finds orphans, by network. */
async function reportOrphans(node: NodeReader): Promise<Findings> {
  const search = searchOf(node);
  const byNetwork = Map.groupBy(
    await findOrphans(search),
    ({ network }) => network,
  );
  return [...byNetwork].map(([network, orphans]) => {
    const count = orphans.length;
    const things = listed(orphans.map(formatOrphan), 3);
    const owner = network === "" ? "the node" : `"${network}"`;
    return warning(
      `${owner} has ${count} orphan${count === 1 ? "" : "s"} of deleted ` +
        `containers: ${things} (${orphans[0]?.why})`,
      "addresses, links and rules stay in use",
      {
        command: node.cni("gc --orphans --yes"),
        fix: {
          did: `removed orphans of ${owner}: ${things}`,
          run: () => remove(search),
        },
      },
    );
  });
}

/** Removes all orphans; a second call finds none. */
async function remove(search: OrphanSearchOptions): Promise<void> {
  const removals = await removeOrphans(search);
  const failures = removals.flatMap(({ error }) => error ?? []);
  throwAll(failures, "several orphans remain");
}

function formatOrphan({ kind, where }: Orphan): string {
  return `${kind} ${where}`;
}

/** Lists the resources of deleted containers. */
export function readOrphans(node: NodeReader): Promise<Orphan[]> {
  return findOrphans(searchOf(node));
}

function searchOf(
  { directories, env, hostNetns, signal }: NodeReader,
): OrphanSearchOptions {
  return {
    ...directories,
    env,
    hostNetns,
    graceMs: GRACE_MS,
    signal,
    invoker: createInvoker(dispatch, findPlugin),
    log: createLog({}, () => {}),
    onStderr(): void {},
  };
}

/** Checks for orphans. */
export const ORPHAN_CHECKS: readonly Check[] = [
  {
    code: "CNI0706",
    name: "leftover",
    finds: "a deleted container left leases, links, rules or files behind",
    effect: "Addresses, links and rules stay in use.",
    cause: "A container was removed without DEL, as in a crash.",
    howToInspect: "`cni gc --orphans`.",
    howToFix: "`cni gc --orphans --yes`, or `cni doctor --fix`.",
    run: reportOrphans,
  },
];
