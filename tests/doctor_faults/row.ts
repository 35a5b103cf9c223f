/**
 * Faults of a node that stop a packet or a call, for the table of what `cni doctor`
 * says of them.
 *
 * @module
 */

import type { Fault } from "../../cli/doctor/testing/fault.ts";
import type { Needs } from "../../testing/capabilities.ts";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import type { Control } from "./controls.ts";
import type { FaultNode, Place } from "./fault_node.ts";

/** Undoes a fault, even if a fix has removed it already. */
export type Undo = () => void | Promise<void>;

/** Injects a fault. */
export type Seed = (node: FaultNode) => Undo | Promise<Undo>;

/** A fault. */
export interface FaultRow {
  readonly name: string;
  /** What fails while it lasts, and works before and after. */
  readonly fails: Control;
  /** What the text of an error has if it names the cause. */
  readonly cause: RegExp;
  readonly seed: Seed;
  readonly needs?: Needs;
  /** Whether a fix may cut off others: there must be advice only, no command. */
  readonly isOfOthers?: boolean;
  /** Whether there is nothing to try before: the fault comes with its network. */
  readonly isNew?: boolean;
  /** Where doctor looks instead of the node's own directories. */
  readonly options?: Fault["options"];
}

/** Injects a fault with a script, and undoes it with a second script, which may fail. */
export function on(
  place: Place,
  breaks: string,
  fixes: string,
): Seed {
  return (node) => {
    node.sh(breaks, place);
    return () => void node.sh(`set +e\n(${fixes}) 2>/dev/null\ntrue`, place);
  };
}

/** Adds a table of nftables with a chain, `c`. */
export function table(
  family: string,
  hook: string,
  rule: string,
  place: Place = "node",
): Seed {
  const [point = "", priority = "0"] = hook.split(" priority ");
  const [name, type = "filter"] = point.split(" ").toReversed();
  return on(
    place,
    `nft -f - <<END\ntable ${family} own {\nchain c { type ${type} hook ${name} ` +
      `priority ${priority}; ${rule}; }\n}\nEND`,
    `nft delete table ${family} own`,
  );
}

/** Adds a rule with `iptables`, and deletes it. */
export function iptables(
  rule: string,
  program = "iptables",
  place: Place = "node",
): Seed {
  const undo = rule.replace(/(^| )-[AI] /, "$1-D ");
  return on(place, `${program} ${rule}`, `${program} ${undo}`);
}

/** Sets a parameter, and sets it back. */
export function sysctl(
  key: string,
  value: number | string,
  place: Place = "node",
): Seed {
  const path = `/proc/sys/${key}`;
  return (node) => {
    const before = node.sh(`cat "${path}"`, place).trim();
    node.sh(`echo ${value} > "${path}"`, place);
    return () => void node.sh(`echo ${before} > "${path}"`, place);
  };
}

/** Injects several faults in order, and undoes them in reverse order. */
export function all(...seeds: readonly Seed[]): Seed {
  return async (node) => {
    const undos: Undo[] = [];
    for (const seed of seeds) undos.push(await seed(node));
    return async () => {
      for (const undo of undos.toReversed()) await undo();
    };
  };
}

/** Reuses a fault of the tests of findings. */
export function known(
  faults: readonly Fault[],
  name: string,
): Pick<FaultRow, "name" | "cause" | "seed" | "options" | "needs"> {
  const fault = faults.find((one) => one.name === name);
  if (fault === undefined) throw new Error(`There is no fault "${name}"`);
  const { message: cause, seed, options, ignore = false } = fault;
  return {
    name,
    cause,
    needs: ignoreUnless(!ignore, "needs what the fault needs"),
    seed: ({ scene }) => seed(scene),
    ...options && { options },
  };
}

/** Skips what needs a discipline, classifier or action of traffic control. */
export function needsTc(probe: string): Needs {
  if (!hasCommand("unshare")) return ignoreUnless(false, "needs unshare");
  const script = `ip link add t0 type veth peer name t1; ${probe}`;
  const { success } = new Deno.Command("unshare", {
    args: ["-n", "sh", "-ec", script],
    stdout: "null",
    stderr: "null",
  }).outputSync();
  return ignoreUnless(success, `needs a kernel for \`${probe}\``);
}
