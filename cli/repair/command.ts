/**
 * `cni repair`: makes again what containers have lost on the host.
 *
 * @module
 */

import type { Output } from "../../base/command_line/command.ts";
import { Interruption } from "../../base/command_line/interrupt.ts";
import { showControls } from "../../base/command_line/style.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { describeError } from "../../base/error.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import {
  listNodeAttachments,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import { getTarget, shortenId } from "../node/target.ts";
import type { CniCall } from "../flags.ts";
import {
  createLocks,
  createRuntime,
  type Directories,
  readDirectories,
  refuseLate,
} from "../node/network.ts";
import { type AttachmentRepair, repairAttachments } from "./repair_node.ts";

/** An attachment, and what became of it. */
interface Row {
  readonly network: string;
  readonly pod: string | null;
  readonly containerID: string;
  readonly ifname: string;
  readonly netns: string;
  /** What was missing and is there again. */
  readonly repaired: readonly Part[];
  /** What is still missing. */
  readonly remaining: readonly Part[];
  /** Plugins that cannot repair; they were only checked. */
  readonly unsupported: readonly string[];
}

/** A missing object that CHECK reports. */
interface Part {
  /** The plugin's type; null if no plugin ran. */
  readonly plugin: string | null;
  readonly msg: string;
}

/** Repairs the attachments of containers, or all. */
export async function repair(call: CniCall): Promise<Output> {
  const { args, flags, signal } = call;
  if ((args.length === 0) === (flags.all !== true)) {
    throw refuse(
      call.command,
      flags.all
        ? "--all repairs all containers; do not name any"
        : "name containers, or use --all",
    );
  }
  const directories = readDirectories(call);
  const attachments = flags.all
    ? listNodeAttachments(directories).filter(({ isLive }) => isLive)
    : args.flatMap((name) => listOf(name, directories));
  refuseLate(call);
  using _nftables = Nftables.keepOpen(OWN_NETNS);
  const locks = createLocks(directories);
  const dryRun = flags["dry-run"] === true;
  const wanted = [...new Set(attachments)];
  const { repairs, failure } = await repairAttachments(wanted, {
    createRuntime: (cacheDir) =>
      createRuntime(call, { ...directories, cacheDir }, locks),
    hostNetns: OWN_NETNS,
    sandbox: flags.sandbox === true,
    dryRun,
    signal,
  });
  const rows = [...repairs, ...listMissed(wanted, repairs, failure)]
    .map(describe);
  if (failure instanceof Error) call.showFailure(failure);
  const exitCode = rows.some(({ remaining }) => remaining.length > 0) ? 1 : 0;
  return {
    json: rows,
    text: rows.flatMap((row) => formatRow(row, dryRun)).join("\n"),
    note: summarize(rows, dryRun),
    exitCode: failure instanceof Interruption ? failure.exitCode : exitCode,
  };
}

/** Lists attachments that repairs that ended early did not reach. */
function listMissed(
  attachments: readonly NodeAttachment[],
  repairs: readonly AttachmentRepair[],
  failure: unknown,
): AttachmentRepair[] {
  if (failure === undefined) return [];
  const reached = new Set(repairs.map(({ attachment }) => attachment));
  const error = `not looked at: ${describeError(failure)}`;
  return attachments.filter((one) => !reached.has(one))
    .map((attachment) => ({ attachment, plugins: [], error }));
}

/** @throws {Error} If there is no such container, or it has no attachment */
function listOf(name: string, directories: Directories): NodeAttachment[] {
  const { attachments } = getTarget(name, directories);
  if (attachments.length > 0) return [...attachments];
  throw new Error(`Cannot repair "${name}": it has no attachments`);
}

function describe({ attachment, plugins, error }: AttachmentRepair): Row {
  const { network, pod, containerId, ifName, netns } = attachment;
  const failed = plugins.flatMap(({ type, remaining, error }) =>
    error === undefined || remaining.length === 0
      ? []
      : [{ plugin: type, msg: error }]
  );
  return {
    network,
    pod: pod ?? null,
    containerID: containerId,
    ifname: ifName,
    netns,
    repaired: plugins.flatMap(({ type, repaired }) =>
      repaired.map((msg) => ({ plugin: type, msg }))
    ),
    remaining: [
      ...error === undefined ? [] : [{ plugin: null, msg: error }],
      ...plugins.flatMap(({ type, remaining }) =>
        remaining.map((msg) => ({ plugin: type, msg }))
      ),
      ...failed,
    ],
    unsupported: plugins.filter(({ isUnsupported }) => isUnsupported)
      .map(({ type }) => type),
  };
}

function formatRow(
  { network, pod, containerID, ifname, repaired, remaining }: Row,
  dryRun: boolean,
): string[] {
  const name = `${pod ?? shortenId(containerID)} ${ifname} on "${network}"`;
  const format = (done: string, { plugin, msg }: Part): string =>
    showControls(
      `${done} ${name}: ${plugin === null ? "" : `${plugin}: `}${msg}`,
    );
  return [
    ...repaired.map((part) => format("repaired", part)),
    ...remaining.map((part) => format(dryRun ? "missing" : "kept", part)),
  ];
}

function summarize(rows: readonly Row[], dryRun: boolean): string {
  const count = (wanted: (row: Row) => boolean): number =>
    rows.filter(wanted).length;
  const left = count(({ remaining }) => remaining.length > 0);
  const unsupported = new Set(rows.flatMap(({ unsupported }) => unsupported));
  return [
    dryRun
      ? `${left} of ${rows.length} attachments lack something`
      : `Repaired ${count(({ repaired }) => repaired.length > 0)} of ` +
        `${rows.length} attachments` +
        (left === 0 ? "" : `; ${left} still lack something`),
    ...[...unsupported].map((type) =>
      `The plugin ${type} does not support REPAIR: it was only checked`
    ),
  ].join("\n");
}
