/**
 * Tries an executable, and reports what came of it.
 *
 * @module
 */

import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { Requirement } from "./requirement.ts";
import type { Kind } from "./scene.ts";
import { Broken, Untried } from "./verdict.ts";
import { findNeeds, type Needs } from "./needs.ts";
import { ThrowAwayNode } from "./place.ts";
import { type Profile, PROFILES, subjectOf, UNKNOWN } from "./profiles.ts";
import { isAbout, type Row, testRequirement } from "./run.ts";
import {
  describeReply,
  type Json,
  type Known,
  Scene,
  type Subject,
} from "./scene.ts";
import { ProcessWay } from "./way.ts";

/** The report on an executable. */
export interface Report {
  /** Its name in the report. */
  readonly name: string;
  readonly executable: string;
  readonly type: string;
  readonly kind: Kind;
  /** The versions that it supports; empty if it does not tell. */
  readonly versions: readonly string[];
  /** Why ADD could not be tested; null if it succeeds. */
  readonly addFails: string | null;
  readonly rows: readonly Row[];
  /** Null if it was not found out. */
  readonly needs: Needs | null;
}

/** An executable to try. */
export interface Candidate {
  /** Its name in the report. */
  readonly name: string;
  readonly executable: string;
  readonly type: string;
  /** Its needs; guessed if undefined. */
  readonly profile?: Profile | undefined;
  /** For CNI_PATH. */
  readonly path: string;
}

/** How to try. */
export interface Options {
  readonly requirements: readonly Requirement[];
  readonly isThorough?: boolean;
  /** How long a call may take, or a command of a configuration file, in ms. */
  readonly callMs?: number | undefined;
  /** Whether to find out what the executable needs. */
  readonly wantsNeeds?: boolean;
  /** Is told what is tried. */
  readonly onProgress?: (text: string) => void;
  /** Ends it. */
  readonly signal?: AbortSignal;
}

/** Asks an executable for its versions; undefined if it does not tell. */
export async function askVersions(
  { executable, path }: Candidate,
  callMs?: number,
  signal?: AbortSignal,
): Promise<readonly string[] | undefined> {
  using place = new ThrowAwayNode(path);
  const way = new ProcessWay(executable, callMs, signal);
  const { json } = await way.call(place, {
    env: { CNI_COMMAND: "VERSION", CNI_PATH: path },
    stdin: '{"cniVersion":"1.1.0"}',
  });
  const { supportedVersions } = (json ?? {}) as Json;
  if (!Array.isArray(supportedVersions)) return undefined;
  return SPEC_VERSIONS.filter((one) => supportedVersions.includes(one));
}

/** Tries an executable. */
export async function tryExecutable(
  candidate: Candidate,
  versions: readonly string[],
  options: Options,
): Promise<Report> {
  const { name, executable, type, path } = candidate;
  const { isThorough = false, callMs, onProgress, signal } = options;
  const way = new ProcessWay(executable, callMs, signal);
  const known: Known = new Map();
  const createFor = (subject: Subject) => (): Scene =>
    new Scene({
      subject,
      place: new ThrowAwayNode(path),
      way,
      versions: versions.length > 0 ? versions : SPEC_VERSIONS,
      executable,
      isThorough,
      shellMs: callMs,
      known,
    });
  onProgress?.(name);
  const { subject, isReady, addFails } = await chooseSubject(
    candidate,
    createFor,
  );
  const create = createFor(subject);
  const usesIpam = subject.config()["ipam"] !== undefined;
  const rows: Row[] = [];
  for (const row of options.requirements) {
    signal?.throwIfAborted();
    const about = {
      kind: subject.kind,
      usesIpam: usesIpam && subject.kind === "interface",
      versions: versions.length > 0 ? versions : SPEC_VERSIONS,
    };
    if (!isAbout(row, about)) continue;
    if (!isReady) {
      rows.push(untried(row, addFails));
      continue;
    }
    onProgress?.(`${name}: ${row.id}`);
    rows.push(await testRequirement(row, create));
  }
  const needs = options.wantsNeeds && addFails === null
    ? await findNeeds(create, way, isThorough)
    : null;
  const { kind } = subject;
  return { name, executable, type, kind, versions, addFails, rows, needs };
}

/** A requirement that no node can be made ready for. */
function untried(
  { id, title, section, strength }: Requirement,
  reason: string | null,
): Row {
  const why = reason ?? "";
  const outcome = "untried";
  return { id, title, section, strength, outcome, why, milliseconds: 0 };
}

/** What came of an ADD. */
interface FirstAdd {
  /** Whether the node could be made ready for it. */
  readonly isReady: boolean;
  /** Why it could not be tried, or failed; null if it succeeds. */
  readonly addFails: string | null;
}

/** Takes what is known of a plugin, or else what lets its ADD succeed. */
async function chooseSubject(
  { type, profile }: Candidate,
  createFor: (subject: Subject) => () => Scene,
): Promise<FirstAdd & { readonly subject: Subject }> {
  const known = profile ?? PROFILES[type];
  const guesses = known === undefined ? UNKNOWN : [known];
  const failures: FirstAdd[] = [];
  for (const guess of guesses) {
    const subject = subjectOf(type, guess, profile === undefined);
    const outcome = await tryAdd(createFor(subject));
    if (outcome.addFails === null) return { subject, ...outcome };
    failures.push(outcome);
  }
  const [first = {}] = guesses;
  const [outcome = { isReady: true, addFails: null }] = failures;
  return { subject: subjectOf(type, first, profile === undefined), ...outcome };
}

/** Attaches a container. */
async function tryAdd(create: () => Scene): Promise<FirstAdd> {
  const scene = create();
  let isReady = false;
  try {
    await scene.prepare();
    isReady = true;
    const one = await scene.container();
    const reply = await scene.call("ADD", one);
    const addFails = reply.exit === "0" ? null : describeReply(reply);
    return { isReady, addFails };
  } catch (error) {
    if (error instanceof Untried || error instanceof Broken) {
      return { isReady, addFails: error.message };
    }
    throw error;
  } finally {
    scene.place[Symbol.dispose]();
  }
}

/** Counts of outcomes by strength. */
export interface Tally {
  readonly kept: number;
  readonly broken: Readonly<Record<Row["strength"], number>>;
  readonly untried: number;
}

/** Counts what came of requirements. */
export function count(rows: readonly Row[]): Tally {
  const broken = rows.filter(({ outcome }) => outcome === "broken");
  const of = (strength: Row["strength"]): number =>
    broken.filter((row) => row.strength === strength).length;
  return {
    kept: rows.filter(({ outcome }) => outcome === "kept").length,
    broken: {
      MUST: of("MUST"),
      SHOULD: of("SHOULD"),
      PRACTICE: of("PRACTICE"),
    },
    untried: rows.filter(({ outcome }) => outcome === "untried").length,
  };
}
