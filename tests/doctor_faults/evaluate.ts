/**
 * Evaluates the report of `cni doctor` about a fault: whether it names the cause, and
 * whether its commands resolve the fault as they are printed.
 *
 * @module
 */

import { assert } from "@std/assert";
import type { CniFlags } from "../../cli/flags.ts";
import { CHECKS } from "../../cli/doctor/checks.ts";
import { diagnose } from "../../cli/doctor/diagnose.ts";
import type { Check } from "../../cli/doctor/finding.ts";
import { PACKET_CHECKS } from "../../cli/doctor/packets.ts";
import type { DoctorScene } from "../../cli/doctor/testing/scene.ts";
import type { Control, Question } from "./controls.ts";
import type { FaultNode } from "./fault_node.ts";
import type { FaultRow } from "./row.ts";

/** Looking at all processes of the machine takes as long as the rest. */
export const CHECKED: readonly Check[] = CHECKS
  .filter(({ name }) => name !== "leftover");

/** A part of the report of `cni doctor`. */
interface Said {
  readonly isError: boolean;
  readonly message: string;
  readonly command: string | undefined;
}

/** The outcome of a fault. */
export interface Outcome {
  /** `half`: it reports a different error, or only warns of the cause. */
  readonly cause: "named" | "half" | "nothing";
  /** `advice`: there is no command to run; `none`: it reports no problem. */
  readonly fix: "works" | "fails" | "advice" | "none";
  /** The whole report. */
  readonly said: readonly Said[];
}

/** Time limits of a control that works, of one that must fail, and after a fix, in ms. */
const WORKS_MS = 10_000, FAILS_MS = 250, FIXED_MS = 3000;
/** Time limit of an attempt, in ms. */
const TRY_MS = 1000;
/** How many commands are run for a fault. */
const MOST_STEPS = 6;

/** Injects a fault, runs `cni doctor` and its commands, and undoes the fault. */
export async function evaluate(
  node: FaultNode,
  row: FaultRow,
): Promise<Outcome> {
  const { fails, seed, isNew = false } = row;
  if (!isNew) assert(await comesToWork(node, fails), "nothing works");
  const undo = await seed(node);
  try {
    assert(!await fails.works(node, FAILS_MS), `it stops nothing`);
    const said = await ask(node, row);
    const errors = said.filter(({ isError }) => isError);
    const names = ({ message }: Said): boolean => row.cause.test(message);
    const cause = errors.some(names)
      ? "named"
      : errors.length > 0 || said.some(names)
      ? "half"
      : "nothing";
    const fix = await follow(node, row, said);
    return { cause, fix, said };
  } finally {
    await undo();
    if (!isNew) {
      assert(await comesToWork(node, fails), "it is not fixed");
    }
  }
}

/** Tries a control until it works or the time limit expires. */
export async function comesToWork(
  node: FaultNode,
  control: Control,
  limitMs: number = WORKS_MS,
): Promise<boolean> {
  for (const end = performance.now() + limitMs; performance.now() < end;) {
    if (await control.works(node, Math.min(TRY_MS, limitMs))) return true;
  }
  return false;
}

/** Runs `cni doctor`, and again for the pod that loses packets. */
async function ask({ scene }: FaultNode, row: FaultRow): Promise<Said[]> {
  using node = scene.node(row.options?.(scene));
  const checks = row.fails.isCall
    ? CHECKED.filter((check) => !PACKET_CHECKS.includes(check))
    : CHECKED;
  const { findings, unchecked } = await diagnose(node, () => {}, checks);
  const said = [
    ...findings.map(({ severity, message, command }) => ({
      isError: severity === "error",
      message,
      command,
    })),
    ...unchecked.map(({ check, reason }) => ({
      isError: false,
      message: `${check} could not be checked: ${reason}`,
      command: undefined,
    })),
  ];
  const { asks } = row.fails;
  if (
    asks === undefined ||
    said.some(({ isError, message }) => isError && row.cause.test(message))
  ) return said;
  return [...said, ...await askForPod(scene, asks)];
}

async function askForPod(
  scene: DoctorScene,
  flags: Question,
): Promise<Said[]> {
  const { json } = await scene.doctor(flags as CniFlags);
  const { causes, ok } = json as {
    readonly ok: boolean;
    readonly causes: { message: string; fix: string | null }[];
  };
  return [
    ...causes.map(({ message, fix }) => ({
      isError: true,
      message,
      command: fix ?? undefined,
    })),
    ...ok || causes.length > 0
      ? []
      : [{ isError: true, message: "Packets are lost", command: undefined }],
  ];
}

/** Runs the printed commands as a user would, first the command of the cause. */
async function follow(
  node: FaultNode,
  row: FaultRow,
  first: readonly Said[],
): Promise<Outcome["fix"]> {
  if (first.length === 0) return "none";
  const done = new Set<string>();
  let said = first;
  for (let step = 0; step < MOST_STEPS; step++) {
    const next = said.toSorted((left, right) =>
      rank(row, left) - rank(row, right)
    )
      .find(({ command }) =>
        command !== undefined && !done.has(command) && canFollow(command)
      );
    if (next?.command === undefined) break;
    done.add(next.command);
    node.scene.follow(next.command);
    if (await comesToWork(node, row.fails, step === 0 ? FIXED_MS : TRY_MS)) {
      return "works";
    }
    said = await ask(node, row);
  }
  return done.size > 0 ? "fails" : "advice";
}

/** There is no cluster here. */
function canFollow(command: string): boolean {
  return !/\b(kubectl|systemctl)\b/.test(command);
}

function rank({ cause }: FaultRow, { isError, message }: Said): number {
  return (isError ? 0 : 2) + (cause.test(message) ? 0 : 1);
}
