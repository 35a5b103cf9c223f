/**
 * `cni gc --orphans`: shows and removes what deleted containers have left.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { createLog } from "../../base/log/log.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { dispatch } from "../../cni/skel.ts";
import { shortenId } from "../node/target.ts";
import {
  findOrphans,
  GRACE_MS,
  type Orphan,
  type Removal,
  removeOrphans,
} from "./mod.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { type Output, readDuration } from "../../base/command_line/command.ts";
import { type Column, formatListing } from "../../base/command_line/table.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import type { CniCall } from "../flags.ts";
import {
  chooseExitCode,
  readDirectories,
  refuseLate,
} from "../node/network.ts";

/** Searches the node for orphans, and removes them with `--yes`. */
export async function gcOrphans(call: CniCall): Promise<Output> {
  const { flags, args, env, onStderr, signal } = call;
  if (args.length > 0 || flags.all) {
    throw refuse(
      call.command,
      "--orphans searches all networks; do not name any",
    );
  }
  if (flags.yes && flags["dry-run"]) {
    throw refuse(call.command, "use either --yes or --dry-run");
  }
  refuseLate(call);
  const search = {
    ...readDirectories(call),
    env,
    hostNetns: OWN_NETNS,
    graceMs: flags.grace === undefined ? GRACE_MS : readDuration(call, "grace"),
    invoker: createInvoker(dispatch, findPlugin),
    log: createLog({ component: "gc" }, onStderr),
    onStderr,
    signal,
  };
  if (!flags.yes) {
    const orphans = await findOrphans(search);
    return {
      json: { orphans: orphans.map(describe) },
      text: orphans.length === 0
        ? ""
        : formatListing(flags, COLUMNS, orphans, ({ where }) => where),
      note: orphans.length === 0
        ? describeNothing(call)
        : "Nothing was removed; use --yes",
      exitCode: chooseExitCode(call, orphans.length > 0),
    };
  }
  return report(call, await removeOrphans(search));
}

/** A search finds nothing of a container that has just failed to start. */
function describeNothing({ flags }: CniCall): string {
  const hint = flags.grace === undefined
    ? "; --grace 10s also finds newer orphans"
    : "";
  return `There are no orphans older than ${flags.grace ?? "5m"}${hint}`;
}

function report(call: CniCall, removals: readonly Removal[]): Output {
  const failed = removals.filter(({ error }) => error !== undefined);
  const removed = removals.length - failed.length;
  const rows = removals.map(({ orphan, error }) => ({
    ...describe(orphan),
    removed: error === undefined,
    ...error && { error: describeError(error) },
  }));
  return {
    json: { orphans: rows },
    text: [
      ...removals.filter(({ error }) => error === undefined)
        .map(({ orphan }) => `removed ${format(orphan)}`),
      ...failed.map(({ orphan, error }) =>
        `kept ${format(orphan)}: ${describeError(error)}`
      ),
    ].join("\n"),
    note: removals.length === 0
      ? describeNothing(call)
      : `Removed ${removed} of ${removals.length}`,
    exitCode: failed.length > 0 ? 1 : 0,
  };
}

function format({ kind, where, container }: Orphan): string {
  return `${kind} ${where}${container && ` of ${shortenId(container)}`}`;
}

function describe(
  { kind, where, container, network, why }: Orphan,
): Record<string, string> {
  return { kind, where, containerID: container, network, why };
}

const COLUMNS: readonly Column<Orphan>[] = [
  { heading: "KIND", cell: ({ kind }) => kind },
  {
    heading: "WHERE",
    cell: ({ where }) => where,
    narrow: "middle",
    fair: 48,
  },
  {
    heading: "CONTAINER",
    cell: ({ container }) => shortenId(container),
    narrow: "middle",
  },
  { heading: "NETWORK", cell: ({ network }) => network, dropped: 1 },
  { heading: "WHY", cell: ({ why }) => why, narrow: "below" },
];
