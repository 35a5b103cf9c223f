/**
 * Carries out a plan, completely or not at all.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { RouteRequests } from "../../ffi/rtnl/route.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { type NewRule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import {
  isDoneAlready,
  type PlannedStep,
  undoAll,
} from "../parts/sandbox/planned_steps.ts";
import type { Plan } from "./plan.ts";

/**
 * Carries out a plan. If a step fails, the earlier steps are undone.
 *
 * @param log Receives failures of the undo
 * @throws {Error} If a step fails; names the step
 */
export function applyPlan(
  { socket, route: routes }: Rtnl,
  plan: Plan,
  log: Log,
): void {
  const rules = new RuleRequests(socket);
  const done: PlannedStep[] = [];
  const run = (steps: readonly PlannedStep[], optional?: string): boolean =>
    runTogether(socket, steps, { done, optional, log });
  run([
    ...plan.rules.map((rule) => addingRule(rules, rule)),
    ...plan.copies.map((route) => addingEntry(routes, route)),
  ]);
  for (const { route, replaced } of plan.hints) {
    // The kernel refuses this during duplicate address detection of the address; the
    // subnet's route then stays.
    if (!run([addingEntry(routes, route)], "EINVAL")) continue;
    run(replaced.map((other) => deletingEntry(routes, other)));
  }
  run(plan.removals.map((route) => deletingEntry(routes, route)));
}

/** The arguments of {@linkcode runTogether}. */
interface Running {
  /** The steps so far; new steps are appended. */
  readonly done: PlannedStep[];
  /** The errno of a refusal that is only logged. */
  readonly optional: string | undefined;
  readonly log: Log;
}

/**
 * Runs independent steps. If a step fails, undoes all steps so far, last first,
 * because a failed step might have taken effect.
 *
 * @returns Whether all steps were carried out
 * @throws {Error} If a step fails; names the step
 */
function runTogether(
  socket: NetlinkSocket,
  steps: readonly PlannedStep[],
  { done, optional, log }: Running,
): boolean {
  const refusals = socket.attemptAll(steps.map(({ work }) => work));
  let failure: Error | undefined, isDone = true;
  for (const [position, step] of steps.entries()) {
    const cause = refusals[position];
    if (isDoneAlready(cause)) continue;
    if (optional !== undefined && isErrno(cause, optional)) {
      isDone = false;
      log.warn(`Cannot ${step.action}`, { problem: describeError(cause) });
      continue;
    }
    done.push(step);
    if (cause === undefined) continue;
    failure ??= new Error(`Cannot ${step.action}`, { cause });
  }
  if (failure === undefined) return isDone;
  for (const problem of undoAll(done)) log.warn(describeError(problem));
  throw failure;
}

function addingRule(requests: RuleRequests, rule: NewRule): PlannedStep {
  return {
    action: `add ${describeRule(rule)}`,
    work: () => requests.add(rule),
    // No other rule leads from this source to this table.
    undo: () => requests.del(rule),
  };
}

/** Deletes a rule. */
export function deletingRule(
  requests: RuleRequests,
  rule: NewRule,
): PlannedStep {
  return {
    action: `delete ${describeRule(rule)}`,
    work: () => requests.del(rule),
    undo: () => requests.add(rule),
  };
}

/** Adds a route next to existing routes with the same destination. */
export function addingEntry(
  requests: RouteRequests,
  route: RouteEntry,
): PlannedStep {
  return {
    action: `add ${describeRoute(route)}`,
    work: () => requests.append(route),
    undo: () => requests.delEntry(route),
  };
}

/** Deletes a route. */
export function deletingEntry(
  requests: RouteRequests,
  route: RouteEntry,
): PlannedStep {
  return {
    action: `delete ${describeRoute(route)}`,
    work: () => requests.delEntry(route),
    undo: () => requests.append(route),
  };
}

/** Describes a route. */
export function describeRoute(
  { destination, nextHops, table }: RouteEntry,
): string {
  const gateways = nextHops.flatMap(({ gateway }) => gateway ?? []);
  const via = gateways.length === 0 ? "" : ` via ${gateways.join(", ")}`;
  return `route ${destination}${via} of table ${table}`;
}

function describeRule({ source, table }: NewRule): string {
  return `rule from ${source} lookup ${table}`;
}
