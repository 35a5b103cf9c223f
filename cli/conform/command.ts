/**
 * `cni conform`: tries whether plugins do what the specification requires.
 *
 * @module
 */

import { join, resolve } from "@std/path/posix";
import { CniError } from "../../base/error.ts";
import { withIoFailure } from "../../base/files/io.ts";
import {
  askVersions,
  type Candidate,
  count,
  type Report,
  tryExecutable,
} from "../../testing/conform/report.ts";
import { REQUIREMENTS } from "../../testing/conform/rows/all.ts";
import type { Row } from "../../testing/conform/run.ts";
import { isExecutable } from "../../testing/conform/trace.ts";
import {
  type ConformConfiguration,
  listCandidates,
  listUnused,
  readConfiguration,
} from "./configuration.ts";
import { formatReports } from "./text.ts";
import type { CniCall } from "../flags.ts";
import { type Output, readTimeLimit } from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { requireDirectoryOf, writeTarget } from "../written_file.ts";

/** Tries executables. */
export async function conform(call: CniCall): Promise<Output> {
  const { flags, signal, onProgress } = call;
  checkFiles(call);
  const configuration = flags.config === undefined
    ? { plugins: {} }
    : readConfiguration(flags.config);
  const requirements = chooseRequirements(call);
  const callMs = readTimeLimit(call, "call-timeout");
  const reports: Report[] = [], skipped: string[] = [];
  const found = findCandidates(call, configuration);
  for (const { candidate, isNamed } of found) {
    signal.throwIfAborted();
    const versions = await askVersions(candidate, callMs, signal)
      .catch((error) => {
        if (isNamed || !(error instanceof CniError)) throw error;
        return undefined;
      });
    if (versions === undefined && !isNamed) {
      skipped.push(candidate.executable);
      continue;
    }
    reports.push(
      await tryExecutable(candidate, versions ?? [], {
        requirements,
        isThorough: flags.thorough ?? false,
        callMs,
        wantsNeeds: flags.requirement === undefined,
        ...onProgress && { onProgress },
        signal,
      }),
    );
  }
  const isFailure = (row: Row): boolean =>
    row.outcome === "broken" &&
    (row.strength === "MUST" || flags.strict === true &&
        row.strength === "SHOULD");
  const executables = found.map(({ candidate }) => candidate.executable);
  const unused = listUnused(configuration, executables);
  const note = await writeFiles(call, reports, isFailure);
  const isTried = reports.some(({ rows }) =>
    rows.some(({ outcome }) => outcome !== "untried")
  );
  const isBroken = reports.some(({ rows }) => rows.some(isFailure));
  return {
    json: {
      version: 1,
      ok: isTried && !isBroken,
      skipped,
      executables: reports.map((report) => ({
        ...report,
        counts: count(report.rows),
      })),
    },
    text: (style) =>
      formatReports(reports, style, {
        isFull: flags.requirement !== undefined,
      }),
    note: [
      ...skipped.map((path) => `${path} does not answer VERSION: left out`),
      ...unused.length === 0 ? [] : [
        `${flags.config} has entries for plugins that were not tested: ${
          unused.join(", ")
        }`,
      ],
      ...note,
    ].join("\n") || undefined,
    exitCode: isBroken ? 1 : isTried ? 0 : 3,
  };
}

function chooseRequirements({ command, flags }: CniCall): typeof REQUIREMENTS {
  if (flags.requirement === undefined) return REQUIREMENTS;
  const ids = flags.requirement.split(",");
  const unknown = ids.find((one) => !REQUIREMENTS.some(({ id }) => id === one));
  if (unknown !== undefined) {
    throw refuse(command, `there is no requirement "${unknown}"`);
  }
  return REQUIREMENTS.filter(({ id }) => ids.includes(id));
}

/** An executable, and whether the user named it, or a directory. */
interface Found {
  readonly candidate: Candidate;
  readonly isNamed: boolean;
}

function findCandidates(
  { command, args, flags }: CniCall,
  configuration: ConformConfiguration,
): Found[] {
  const more = flags["cni-path"]?.split(":").map((one) => resolve(one)) ?? [];
  return args.flatMap((given) => {
    const path = resolve(given);
    const { isDirectory } = withIoFailure(
      `find "${given}"`,
      () => Deno.statSync(path),
    );
    const files = isDirectory
      ? [...Deno.readDirSync(path)].map(({ name }) => join(path, name))
        .filter(isExecutable).sort()
      : [path];
    if (!isDirectory && !isExecutable(path)) {
      throw refuse(command, `"${given}" is not executable`);
    }
    const directory = isDirectory ? path : resolve(path, "..");
    const cniPath = [directory, ...more].join(":");
    return files.flatMap((file) =>
      listCandidates(file, cniPath, configuration)
        .map((candidate) => ({ candidate, isNamed: !isDirectory }))
    );
  });
}

/** Fails before the work is done if a file's directory does not exist. */
function checkFiles({ flags }: CniCall): void {
  for (const path of [flags.junit, flags.html]) {
    if (path !== undefined) requireDirectoryOf(path);
  }
}

/** Writes the files that flags name; returns notes. */
async function writeFiles(
  { flags }: CniCall,
  reports: readonly Report[],
  isFailure: (row: Row) => boolean,
): Promise<string[]> {
  const notes: string[] = [];
  const write = (path: string, text: string): void => {
    writeTarget(path, text);
    notes.push(`Wrote ${path}`);
  };
  if (flags.junit !== undefined) {
    const { formatJunit } = await import("./files.ts");
    write(flags.junit, formatJunit(reports, isFailure));
  }
  if (flags.html !== undefined) {
    const { formatPage } = await import("./files.ts");
    write(flags.html, formatPage(reports));
  }
  return notes;
}
