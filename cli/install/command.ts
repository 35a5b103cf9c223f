/**
 * `cni install` and `cni uninstall`: put this executable on a node, and remove
 * it again.
 *
 * @module
 */

import { join, resolve } from "@std/path/posix";
import { listNodeAttachments } from "../node/node_attachments.ts";
import { listCachedPlugins, nameAttachment } from "../node/live.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible, isDirectory, withIoFailure } from "../../base/files/io.ts";
import {
  compareLibraries,
  copyLibraries,
  LIBRARY_DIRECTORY,
  removeLibraries,
} from "../../base/files/libraries.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { pluginNames, programNames } from "../../plugins/registry.ts";
import type { Output } from "../../base/command_line/command.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { shell } from "../../base/command_line/shell.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import type { CniCall } from "../flags.ts";
import { DaemonService, UNIT_PATH } from "./daemon_service.ts";
import {
  type Change,
  EXECUTABLE,
  type Form,
  Installation,
  requireWritable,
} from "./installation.ts";
import { listTypes } from "../node/plugin_types.ts";
import {
  type DaemonReport,
  isOfRuntimes,
  type PluginRow,
  report,
  reportPlan,
} from "./report.ts";
import { listNetworks, readDirectories } from "../node/network.ts";
import { restartDetached } from "../daemon/detach.ts";
import { findDaemonProcess, readExecutable } from "../node/node_daemon.ts";

/** This executable. */
const SOURCE = "/proc/self/exe";

/** The executable of `multus install`. */
const MULTUS = "cni-multus";

/** Programs that are not plugins, installed only if they are named. */
const ON_REQUEST: readonly string[] = ["multus-shim", "noop"];

/** Installs this executable. With `--rollback`, does the same as {@linkcode uninstall}. */
export async function install(call: CniCall): Promise<Output> {
  if (call.flags.rollback) return await uninstall(call);
  const [directory = ""] = call.args;
  const names = chooseNames(call);
  const chosen = chooseForm(call);
  requireExecutable();
  const isDryRun = call.flags["dry-run"];
  requireWritable(directory);
  if (!isDirectory(directory)) {
    if (isDryRun) {
      const rows = installedRows(names);
      return await reportPlan(call, rows, await updateDaemon(call, rows));
    }
    withIoFailure(
      `create the directory "${directory}"`,
      () => Deno.mkdirSync(directory, { recursive: true }),
    );
  }
  using installation = await Installation.open(directory, SOURCE);
  const pruned = call.flags.prune
    ? compareUndo(installation, installation.listPlugins())
      .filter(({ name }) => !names.includes(name))
    : [];
  if (!call.flags.force) refuseIfNeeded(call, pruned);
  const changes = new Map<string, Change>();
  const formOf = (name: string): Form =>
    METADATA.get(name)?.install?.isCopy ? "copy" : chosen;
  for (const name of names) {
    const form = formOf(name);
    changes.set(name, await installation.compare(SOURCE, name, form));
  }
  const others = installation.listOtherLinks(changes);
  // Once started, it continues: a node with some files of each build is worse.
  call.signal.throwIfAborted();
  const rows: PluginRow[] = [];
  // First: without them the executable might not start.
  const libraries = isDryRun
    ? await compareLibraries(SOURCE, directory)
    : await copyLibraries(SOURCE, directory);
  if (libraries !== undefined) {
    rows.push({ name: LIBRARY_DIRECTORY, change: libraries });
  }
  if (!isDryRun) installation.prepare(changes);
  for (const [name, change] of changes) {
    call.onProgress?.(`${rows.length + 1}/${names.length} ${name}`);
    if (!isDryRun) {
      await installation.install(SOURCE, name, formOf(name), change);
    }
    rows.push({ name, change });
  }
  rows.push(...others.map((name) => ({ name, change: "repointed" as const })));
  for (const { name } of isDryRun ? [] : pruned) installation.undo(name);
  const daemon = await updateDaemon(call, rows);
  return isDryRun
    ? await reportPlan(call, [...rows, ...pruned], daemon)
    : report(call, [...rows, ...pruned], daemon);
}

/** Lists what is installed, and what removing it would do. */
function compareUndo(
  installation: Installation,
  names: readonly string[] = installation.list(),
): PluginRow[] {
  return names
    .map((name) => ({ name, change: installation.compareUndo(name) }));
}

/**
 * Has the node run the daemon of what was installed: as a service of systemd, or
 * again in the background.
 */
async function updateDaemon(
  call: CniCall,
  rows: readonly PluginRow[],
): Promise<DaemonReport | undefined> {
  const directory = resolve(call.args[0] ?? "");
  const { flags, signal } = call;
  if (flags["no-daemon"]) return undefined;
  const service = DaemonService.find(signal);
  const isReplaced = rows.some(({ name, change }) =>
    name === EXECUTABLE && change !== "unchanged"
  );
  const executable = join(directory, EXECUTABLE);
  const own = isReplaced && !service?.isLive
    ? await findDaemonOf(executable, signal)
    : undefined;
  const report = service && isOfRuntimes(directory)
    ? await tryDaemon(async () => {
      // Two daemons would take the sockets from each other.
      const pid = await service.findOther();
      if (pid !== undefined) return { change: "running", pid };
      const options = { executable, isReplaced };
      const change = flags["dry-run"]
        ? service.compare(options)
        : service.update(options);
      return { change: await change };
    })
    : undefined;
  if (own !== undefined) {
    return await restartOwn(call, executable, own) ?? report;
  }
  return report?.change === "unit installed"
    ? { ...report, pid: await findDaemonProcess(signal) }
    : report;
}

/** Starts a replaced daemon again; undefined if another program runs it. */
async function restartOwn(
  { flags, signal }: CniCall,
  executable: string,
  pid: number,
): Promise<DaemonReport | undefined> {
  const isRestarted = flags["dry-run"] ||
    await restartDetached(executable, pid, signal).catch(() => undefined);
  return isRestarted ? { change: "restarted" } : undefined;
}

/** Plugins work without the daemon, so its failure does not fail them. */
async function tryDaemon(
  change: () => Promise<DaemonReport>,
): Promise<DaemonReport> {
  try {
    return await change();
  } catch (error) {
    return { change: "failed", problem: formatFailureText(error) };
  }
}

/** Stops and removes the daemon that runs from a directory. */
async function removeDaemon(
  { args: [directory = ""], flags, signal }: CniCall,
): Promise<DaemonReport | undefined> {
  const service = DaemonService.find(signal);
  const executable = join(resolve(directory), EXECUTABLE);
  const isService = service?.executable === executable;
  if (isService && !flags["dry-run"]) {
    await service.remove().catch((error) => refuseToGoOn(error, signal));
  }
  const removed = isService ? { change: "removed" } as const : undefined;
  if (isService && service.isLive) return removed;
  const pid = await findDaemonOf(executable, signal);
  return pid === undefined ? removed : { change: "running", pid };
}

/** Refuses to remove the program of a daemon that systemd still runs, or would start again. */
function refuseToGoOn(error: unknown, signal: AbortSignal): never {
  // An interruption ends systemctl, too.
  signal.throwIfAborted();
  const why = formatFailureText(error);
  throw new CniError(
    ErrorCode.Internal,
    `Cannot uninstall: systemd did not remove the node daemon: ${why}. No plugin was removed. ` +
      `Try again when systemctl works; where systemd does not run, first run rm ${UNIT_PATH}`,
  );
}

/** Finds the process of a daemon that listens. */
async function findDaemonOf(
  executable: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const path = ifPossible(() => Deno.realPathSync(executable));
  const pid = await findDaemonProcess(signal);
  const isOf = path !== undefined && readExecutable(pid).executable === path;
  return isOf ? pid : undefined;
}

function installedRows(names: readonly string[]): PluginRow[] {
  return names.map((name) => ({ name, change: "installed" }));
}

/** Removes this executable, and restores the files that it replaced. */
export async function uninstall(call: CniCall): Promise<Output> {
  const [directory = ""] = call.args;
  using installation = await Installation.open(directory);
  const rows = compareUndo(installation);
  if (rows.length === 0 && !call.flags["if-installed"]) {
    throw new CniError(
      ErrorCode.Internal,
      `Nothing is installed in "${directory}" by cni install`,
    );
  }
  if (!call.flags.force) refuseIfNeeded(call, rows);
  call.signal.throwIfAborted();
  // First: its unit must not name a deleted file.
  const daemon = await removeDaemon(call);
  call.signal.throwIfAborted();
  if (!call.flags["dry-run"]) {
    for (const { name } of rows) installation.undo(name);
    // The libraries of multus are the same.
    const multus = ifPossible(() => Deno.statSync(join(directory, MULTUS)));
    if (multus === undefined) removeLibraries(directory);
    installation.forget();
  }
  return report(call, rows, daemon);
}

/** Refuses to remove plugins that a configuration uses. */
function refuseIfNeeded(call: CniCall, rows: readonly PluginRow[]): void {
  const removed = rows.filter(({ change }) => change === "removed")
    .map(({ name }) => name);
  const { confDir, cacheDir } = readDirectories(call);
  refuseIfAttached(cacheDir, removed);
  for (const { file, list } of listNetworks(confDir)) {
    const types = list.plugins.flatMap(({ document }) => listTypes(document));
    const missing = types.find((type) => removed.includes(type));
    if (missing === undefined) continue;
    const remedy = missing === "chain"
      ? shell`run cni convert --to list --write ${file}`
      : shell`run rm ${file} if you no longer need this network, or use ` +
        "--force to keep the file without its plugin";
    throw new CniError(
      ErrorCode.Internal,
      `Cannot uninstall: ${file} needs ${missing}, which would be missing; ${remedy}`,
    );
  }
}

/** Refuses to remove plugins that DEL of an attachment needs. */
function refuseIfAttached(cacheDir: string, removed: readonly string[]): void {
  for (const one of listNodeAttachments({ cacheDir })) {
    const missing = listCachedPlugins(one).flatMap(listTypes)
      .find((type) => removed.includes(type));
    if (missing === undefined) continue;
    throw new CniError(
      ErrorCode.Internal,
      `Cannot uninstall: ${nameAttachment(one)} of "${one.network}" was ` +
        `attached with ${missing}, which would be missing for DEL; delete the ` +
        "container first, run cni gc --orphans if it no longer exists, or use " +
        "--force",
    );
  }
}

/** Chooses the files: the executable first, because links lead to it. */
function chooseNames(call: CniCall): string[] {
  const { only } = call.flags;
  const known = [...pluginNames, ...programNames]
    .filter((name) => name !== EXECUTABLE);
  if (only === undefined) {
    const usual = known.filter((name) =>
      !ON_REQUEST.includes(name) && !METADATA.get(name)?.install?.onRequest
    );
    return [EXECUTABLE, ...usual.sort()];
  }
  const named = only.split(",").map((name) => name.trim())
    .filter((name) => name !== "" && name !== EXECUTABLE);
  for (const name of named) {
    if (known.includes(name)) continue;
    const hint = didYouMean(name, known);
    throw refuse(call.command, `no plugin is named "${name}"${hint}`);
  }
  return [EXECUTABLE, ...new Set(named)];
}

function chooseForm({ command, flags }: CniCall): Form {
  if (!flags.copy) return "link";
  if (!flags.link) return "copy";
  throw refuse(command, "--copy and --link contradict each other");
}

/** @throws {CniError} 999 if this is run from its sources */
export function requireExecutable(): void {
  if (import.meta.dirname === undefined) return;
  throw new CniError(
    ErrorCode.Internal,
    "Cannot install: this is cni from its sources; run deno task compile " +
      "and then dist/bin/cni install",
  );
}
