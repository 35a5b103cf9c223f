/**
 * Lint rule `cni/no-ambient`: product code gets the environment as parameters.
 *
 * @module
 */

import { isIn, PROCESS_OWNERS, productPath } from "./project_files.ts";
import {
  findDenoMember,
  isReference,
  listDestructuredDenoMembers,
} from "./references.ts";

const SLOW_START = "the first touch costs each start tens of milliseconds";

/** Globals that product code does without, with the reason. */
const BANNED_GLOBALS: ReadonlyMap<string, string> = new Map([
  ["process", SLOW_START],
  ["Buffer", SLOW_START],
  ["setTimeout", SLOW_START],
  ["setInterval", SLOW_START],
  ["require", "modules are imported"],
  ["FinalizationRegistry", "its callbacks never run in the executables"],
  ["console", "stdout belongs to the result, stderr to the logger"],
]);

/** Members of globals and packages that product code does without. */
const BANNED_MEMBERS: ReadonlyMap<string, string> = new Map([
  [
    "AbortSignal.any",
    "AbortSignal.any() leaks in a process that stays; use JoinedSignal",
  ],
  [
    "z.catch",
    "z.catch() makes 10 KB more of zod part of each call; decode() may fail",
  ],
]);

/** Files that may use a banned global. */
const GLOBAL_HOMES: ReadonlyMap<string, readonly string[]> = new Map([
  // It takes the console away from stdout.
  ["console", ["base/process/stdio.ts"]],
]);

const LIBC = ["ffi/epoll.ts", "ffi/libc/", "ffi/socket/unix_stream.ts"];

/** Members of `Deno` that have a home. */
const DENO_HOMES: ReadonlyMap<string, readonly string[]> = new Map([
  ["args", PROCESS_OWNERS],
  // Deno's own variables decide whom TLS trusts, unless they are taken away.
  ["env", [...PROCESS_OWNERS, "kube/trust.ts"]],
  ["exit", PROCESS_OWNERS],
  ["exitCode", PROCESS_OWNERS],
  ["stdin", PROCESS_OWNERS],
  ["stdout", PROCESS_OWNERS],
  ["dlopen", LIBC],
]);

/** Reports use of the process's own state outside the files that own it. */
export const noAmbient: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = productPath(context);
    if (path === undefined) return {};

    function checkMember(node: Deno.lint.Node, member: string): void {
      const homes = DENO_HOMES.get(member);
      if (!homes || isIn(path ?? "", homes)) return;
      const message = `Deno.${member} belongs to ${homes.join(", ")}`;
      context.report({ node, message });
    }

    return {
      Identifier(node): void {
        const reason = BANNED_GLOBALS.get(node.name);
        if (!reason || !isReference(node)) return;
        if (isIn(path, GLOBAL_HOMES.get(node.name) ?? [])) return;
        const message = `Product code may not use "${node.name}": ${reason}`;
        context.report({ node, message });
      },
      MemberExpression(node): void {
        const member = findDenoMember(node);
        if (member) checkMember(node, member);
        const message = BANNED_MEMBERS.get(nameOf(node) ?? "");
        if (message !== undefined) context.report({ node, message });
      },
      VariableDeclarator(node): void {
        for (const member of listDestructuredDenoMembers(node)) {
          checkMember(node, member);
        }
      },
    };
  },
};

function nameOf(
  { object, property }: Deno.lint.MemberExpression,
): string | undefined {
  return object.type === "Identifier" && property.type === "Identifier"
    ? `${object.name}.${property.name}`
    : undefined;
}
