/**
 * Carries out a plan, completely or not at all.
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

/** A change of the sandbox, and its undo. */
interface Step {
  /** As in `add rule ...`. */
  readonly action: string;
  readonly work: () => void;
  readonly undo: () => void;
}

/**
 * Carries out a plan. If a step fails, the steps before it are undone.
 *
 * @param log Receives failures of the undo
 * @throws {Error} If a step fails; names the step
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
    // Before the work: a failed step may have taken effect.
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

/**
 * Reports whether an addition failed because the object exists, or a deletion
 * because it does not.
 */
export function isDoneAlready(error: unknown): boolean {
  return isErrno(error, "EEXIST", "ESRCH", "ENOENT");
}

/**
 * Runs an optional step.
 *
 * @param action Name of the step, as in `delete route ...`
 * @param log Receives the failure
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
    // No other rule leads from this source to this table.
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
 * Adds a hint if the kernel accepts it. It refuses while duplicate address
 * detection of the address is in progress; then the subnet's route stays.
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

/** Describes a route. */
export function describeRoute(
  { destination, nextHops, table }: RouteEntry,
): string {
  const gateways = nextHops.flatMap(({ gateway }) => gateway ?? []);
  const via = gateways.length === 0 ? "" : ` via ${gateways.join(", ")}`;
  return `route ${destination}${via} of table ${table}`;
}

/** Describes a rule. */
export function describeRule({ source, table }: NewRule): string {
  return `rule from ${source} lookup ${table}`;
}
