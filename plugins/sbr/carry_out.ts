/**
 * Doing what was planned, all of it or nothing.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import type { Log } from "../../cni/log.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  type RouteEntry,
  RouteEntryRequests,
} from "../../ffi/rtnl/route_entry.ts";
import { type NewRule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import type { Plan } from "./plan.ts";
import type { Hint } from "./source_hints.ts";

/** A change of the sandbox, and the way back. */
interface Step {
  /** As in `add rule ...`. */
  readonly action: string;
  readonly work: () => void;
  readonly undo: () => void;
}

/**
 * Carries a plan out. If a step fails, those before it are undone.
 *
 * @param log Told of what cannot be undone
 * @throws {Error} That names the step
 */
export function carryOut({ socket }: Rtnl, plan: Plan, log: Log): void {
  const rules = new RuleRequests(socket);
  const routes = new RouteEntryRequests(socket);
  runAll([
    ...plan.rules.map((rule) => addingRule(rules, rule)),
    ...plan.copies.map((route) => addingRoute(routes, route)),
    ...plan.hints.flatMap((hint) => addingHint(routes, hint, log)),
    ...plan.removals.map((route) => deletingRoute(routes, route)),
  ], log);
}

function runAll(steps: readonly Step[], log: Log): void {
  const begun: Step[] = [];
  for (const step of steps) {
    // Before it is done: one that fails may have been done all the same.
    begun.push(step);
    try {
      step.work();
    } catch (error) {
      if (isDoneAlready(error)) begun.pop();
      else {
        for (const { action, undo } of begun.reverse()) {
          attempt(`undo: ${action}`, undo, log);
        }
        throw new Error(`Cannot ${step.action}`, { cause: error });
      }
    }
  }
}

/** Says whether the kernel answers that what was to be added is there, or what was to be deleted is not. */
export function isDoneAlready(error: unknown): boolean {
  return isErrno(error, "EEXIST", "ESRCH", "ENOENT");
}

/**
 * Does what can only be tried.
 *
 * @param action What it does, as in `delete route ...`
 * @param log Told if it fails
 */
export function attempt(action: string, work: () => void, log: Log): void {
  try {
    work();
  } catch (error) {
    if (isDoneAlready(error)) return;
    log.warn(`Cannot ${action}`, { problem: describeError(error) });
  }
}

function addingRule(requests: RuleRequests, rule: NewRule): Step {
  return {
    action: `add ${describeRule(rule)}`,
    work: () => requests.add(rule),
    // No other rule leads from there to that table.
    undo: () => requests.del(rule),
  };
}

function addingRoute(requests: RouteEntryRequests, route: RouteEntry): Step {
  return {
    action: `add ${describeRoute(route)}`,
    work: () => requests.append(route),
    undo: () => requests.del(route),
  };
}

function deletingRoute(requests: RouteEntryRequests, route: RouteEntry): Step {
  return {
    action: `delete ${describeRoute(route)}`,
    work: () => requests.del(route),
    undo: () => requests.append(route),
  };
}

/**
 * A hint is given if the kernel takes it. It does not while another host may
 * have the address, and then the subnet's route stays as it is.
 */
function addingHint(
  requests: RouteEntryRequests,
  { route, replaced }: Hint,
  log: Log,
): Step[] {
  const adding = addingRoute(requests, route);
  let isGiven = true;
  const work = (): void => {
    try {
      adding.work();
    } catch (error) {
      if (!isErrno(error, "EINVAL")) throw error;
      isGiven = false;
      log.warn(`Cannot ${adding.action}`, { problem: describeError(error) });
    }
  };
  const deleting = replaced.map((other) => deletingRoute(requests, other));
  return [
    { ...adding, work },
    ...deleting.map((step) => ({
      ...step,
      work: () => isGiven ? step.work() : undefined,
    })),
  ];
}

/** Says in words which route is meant. */
export function describeRoute(
  { destination, nextHops, table }: RouteEntry,
): string {
  const gateways = nextHops.flatMap(({ gateway }) => gateway ?? []);
  const via = gateways.length === 0 ? "" : ` via ${gateways.join(", ")}`;
  return `route ${destination}${via} of table ${table}`;
}

/** Says in words which rule is meant. */
export function describeRule({ source, table }: NewRule): string {
  return `rule from ${source} lookup ${table}`;
}
