/**
 * `cni report`: collects the state of the node in an archive.
 *
 * @module
 */

import { basename, resolve } from "@std/path/posix";
import {
  ifPossible,
  unlessMissing,
  withIoFailure,
} from "../../base/files/io.ts";
import { DEFAULT_LOG, findLogPath, NO_LOG } from "../../base/log/log_file.ts";
import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import type { Output, Run } from "../../base/command_line/command.ts";
import { listNodeAttachments } from "../node/node_attachments.ts";
import type { CniCall } from "../flags.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { listTypes } from "../node/plugin_types.ts";
import {
  type Directories,
  listNetworks,
  readDirectories,
} from "../node/network.ts";
import { Collection } from "./collect.ts";
import { maskKeys } from "./mask.ts";
import { makeTarGz } from "./tar.ts";
import { findDescribedPlugin } from "../node/described_plugin.ts";
import { requireDirectoryOf } from "../written_file.ts";

/** Commands of the tool in the report, with their arguments. */
const COMMANDS: Readonly<Record<string, () => Promise<Run>>> = {
  "doctor.json": async () =>
    (await import("../doctor/command.ts")).doctor as Run,
  "list.json": async () => (await import("../list/command.ts")).list as Run,
  "networks.json": async () =>
    (await import("../networks/command.ts")).networks as Run,
  "plugins.json": async () =>
    (await import("../plugins/command.ts")).plugins as Run,
};

/** The commands that show a namespace, by file. */
const NAMESPACE: Readonly<Record<string, readonly string[]>> = {
  "links.txt": ["ip", "-d", "-s", "link", "show"],
  "addresses.txt": ["ip", "address", "show"],
  "routes4.txt": ["ip", "-4", "route", "show", "table", "all"],
  "routes6.txt": ["ip", "-6", "route", "show", "table", "all"],
  "rules4.txt": ["ip", "-4", "rule", "show"],
  "rules6.txt": ["ip", "-6", "rule", "show"],
  "neighbors.txt": ["ip", "neighbor", "show"],
  "qdiscs.txt": ["tc", "-s", "qdisc", "show"],
  "nft.txt": ["nft", "-a", "list", "ruleset"],
};

/** The commands that make sense on the host only. */
const HOST: Readonly<Record<string, readonly string[]>> = {
  "iptables4.txt": ["iptables-save", "-c"],
  "iptables6.txt": ["ip6tables-save", "-c"],
  "bridge-vlans.txt": ["bridge", "vlan", "show"],
  "sysctls.txt": [
    "sysctl",
    "-ar",
    "^net\\.(ipv[46]\\.conf\\.(all|default)\\.|ipv4\\.ip_forward|bridge\\.)",
  ],
};

/** Writes the archive, and lists what is in it. */
export async function report(call: CniCall): Promise<Output> {
  const now = new Date();
  const name = `cni-report-${Deno.hostname()}-` +
    now.toISOString().replace(/[-:]|\.\d+/g, "");
  const file = resolve(call.args[0] ?? `${name}.tar.gz`);
  refuseTaken(file);
  const collection = new Collection(call.signal, call.onProgress ?? (() => {}));
  await collect(call, collection);
  const { files, missing } = collection;
  const index = formatIndex(call, collection, now);
  const archive = await makeTarGz(
    new Map(
      [["index.txt", index] as const, ...files]
        .map(([path, text]) => [`${name}/${path}`, text] as const),
    ),
    Math.floor(now.getTime() / 1000),
  );
  withIoFailure(
    `write "${file}"`,
    () => Deno.writeFileSync(file, archive, { createNew: true, mode: 0o600 }),
  );
  const count = `${files.size + 1} files, ${
    Math.ceil(archive.length / 1024)
  } KiB`;
  return {
    json: {
      file,
      bytes: archive.length,
      collected: ["index.txt", ...files.keys()],
      missing: Object.fromEntries(missing),
    },
    text: `${listCollected(collection)}\n\nWrote ${file} (${count})`,
    note:
      "Secrets are masked, but addresses and names are not: inspect the archive before " +
      "you pass it on" +
      (Deno.uid() === 0 ? "" : "\nTo collect everything, run it as root"),
  };
}

/** Refuses a file that cannot be created, before minutes of work. */
function refuseTaken(file: string): void {
  requireDirectoryOf(file);
  withIoFailure(`write "${file}"`, () => {
    const there = unlessMissing(() => Deno.lstatSync(file));
    if (there === undefined) return;
    throw there.isDirectory
      ? new Deno.errors.IsADirectory("Is a directory")
      : new Deno.errors.AlreadyExists("File exists");
  });
}

async function collect(call: CniCall, into: Collection): Promise<void> {
  const directories = readDirectories(call);
  maskKeys(await listSecrets(call, directories));
  await into.addJson("versions.json", listVersions);
  for (const [path, load] of Object.entries(COMMANDS)) {
    await into.addJson(path, async () => {
      const run = await load();
      return (await run({ ...call, args: [], flags: directoriesOf(call) }))
        .json;
    });
  }
  into.addDirectory("config", directories.confDir);
  into.addFile("log.json", "/etc/cni/log.json");
  into.addDirectory("state", directories.cacheDir);
  into.addDirectory("run", "/run/cni");
  await collectLogs(call, into);
  const host = { ...NAMESPACE, ...HOST };
  for (const [path, command] of Object.entries(host)) {
    await into.addOutput(`host/${path}`, command);
  }
  for (const [name, netns] of listNamespaces(directories)) {
    for (const [path, command] of Object.entries(NAMESPACE)) {
      await into.addOutput(`netns/${name}/${path}`, command, netns);
    }
  }
}

/** Lists the secret keys of plugins outside of this project. */
async function listSecrets(
  call: CniCall,
  { confDir, pluginDirs }: Directories,
): Promise<string[]> {
  const networks = ifPossible(() => listNetworks(confDir)) ?? [];
  const types = networks.flatMap(({ list }) =>
    list.plugins.flatMap(({ document }) => listTypes(document))
  );
  const secrets: string[] = [];
  for (const type of new Set(types)) {
    if (pluginNames.includes(type)) continue;
    const described = await findDescribedPlugin(type, pluginDirs, call);
    secrets.push(...described?.secrets ?? []);
  }
  return secrets;
}

/** Keeps only the flags for directories; a command might have other flags of the same name. */
function directoriesOf({ flags }: CniCall): CniCall["flags"] {
  return Object.fromEntries(
    Object.entries(flags).filter(([name]) => /-(path|dir)$/.test(name)),
  );
}

function listVersions(): Record<string, unknown> {
  const release = ifPossible(() => Deno.readTextFileSync("/etc/os-release"));
  const system = /^PRETTY_NAME="?(.*?)"?$/m.exec(release ?? "")?.[1];
  return {
    cni: PLUGINS_VERSION,
    executable: Deno.execPath(),
    ...Deno.version,
    kernel: Deno.osRelease(),
    arch: Deno.build.arch,
    system: system ?? null,
    user: Deno.uid(),
  };
}

async function collectLogs(call: CniCall, into: Collection): Promise<void> {
  try {
    const path = findLogPath(call.env) ?? DEFAULT_LOG;
    if (path === NO_LOG) {
      return into.skip("logs.txt", "the plugins log to stderr only");
    }
    const { readLines } = await import("../logs/command.ts");
    const lines = await readLines(path, call);
    into.add("logs.txt", lines.map(({ text }) => `${text}\n`).join(""));
  } catch (error) {
    into.skip("logs.txt", error);
  }
}

/** Lists the namespaces of attachments, by a name for the archive. */
function listNamespaces(directories: Directories): Map<string, string> {
  const live = (ifPossible(() => listNodeAttachments(directories)) ?? [])
    .filter(({ isLive, netns }) => isLive === true && netns !== "");
  return new Map(live.map(({ containerId, netns }) => [
    `${basename(netns)}-${containerId.slice(0, 13)}`,
    netns,
  ]));
}

function listCollected({ files, missing }: Collection): string {
  const counts = new Map<string, number>();
  for (const path of files.keys()) {
    const [top = ""] = path.split(/(?<=\/)/);
    counts.set(top, (counts.get(top) ?? 0) + 1);
  }
  const lines = [...counts].map(([top, count]) =>
    top.endsWith("/") ? `  ${top} (${count})` : `  ${top}`
  );
  const without = [...missing].map(([path, why]) =>
    `  ${path}: ${why.split("\n")[0]}`
  );
  return [
    "Collected:",
    ...lines,
    ...without.length === 0 ? [] : ["Not collected:", ...without],
  ].join("\n");
}

function formatIndex(
  { command }: CniCall,
  collection: Collection,
  now: Date,
): string {
  const paths = [...collection.files.keys()].map((path) => `  ${path}\n`);
  return `${command}, ${now.toISOString()}\n${listCollected(collection)}\n\n` +
    `Files:\n${paths.join("")}`;
}
