/**
 * Lint rule `cni/kernel-is-sync`: what depends on the thread's network
 * namespace never leaves the thread.
 *
 * `setns(2)` moves one thread. Asynchronous file operations and nonblocking
 * FFI run on pool threads, which stay outside and answer for the wrong
 * namespace without an error.
 *
 * @module
 */

import { isTest, projectPath } from "./project_files.ts";
import { findDenoMember, isReference } from "./references.ts";

/** Only waits for descriptors, which does not depend on a namespace. */
const WAITING = "ffi/epoll.ts";

const FUNCTIONS = ["ArrowFunctionExpression", "FunctionExpression"];

/** Reports whether a member of `Deno` has a synchronous twin, as `readTextFile`. */
function hasSyncTwin(member: string): boolean {
  return `${member}Sync` in Deno;
}

/** Reports whether a node is a function passed to `inNetns()`. */
function isNetnsCallback(node: Deno.lint.Node): boolean {
  if (!FUNCTIONS.includes(node.type) || !("parent" in node)) return false;
  if (node.parent.type !== "CallExpression") return false;
  const { callee } = node.parent;
  const name = callee.type === "MemberExpression" ? callee.property : callee;
  return name.type === "Identifier" && name.name === "inNetns";
}

/** Reports asynchrony in `ffi/`, and in callbacks of `inNetns()` anywhere. */
export const kernelIsSync: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = projectPath(context.filename);
    if (path === undefined) return {};
    const isKernelCode = path.startsWith("ffi/") && path !== WAITING &&
      !isTest(path);
    // To visit the nodes of a file takes longer than to read its text.
    if (!isKernelCode && !context.sourceCode.text.includes("inNetns")) {
      return {};
    }

    function report(node: Deno.lint.Node, what: string): void {
      const scopes = [...context.sourceCode.getAncestors(node), node];
      if (!isKernelCode && !scopes.some(isNetnsCallback)) return;
      const where = isKernelCode ? "ffi/" : "an inNetns() callback";
      const message = `${where} is synchronous: ${what} may leave the ` +
        "thread that is in the network namespace";
      context.report({ node, message });
    }

    function checkFunction(
      node:
        | Deno.lint.ArrowFunctionExpression
        | Deno.lint.FunctionDeclaration
        | Deno.lint.FunctionExpression,
    ): void {
      if (node.async) report(node, "an async function");
    }

    return {
      ArrowFunctionExpression: checkFunction,
      FunctionDeclaration: checkFunction,
      FunctionExpression: checkFunction,
      AwaitExpression: (node): void => report(node, "await"),
      ForOfStatement(node): void {
        if (node.await) report(node, "for await");
      },
      VariableDeclaration(node): void {
        if (node.kind === "await using") report(node, "await using");
      },
      Identifier(node): void {
        if (node.name === "Promise" && isReference(node)) {
          report(node, "a Promise");
        }
      },
      MemberExpression(node): void {
        const member = findDenoMember(node);
        if (member && hasSyncTwin(member)) report(node, `Deno.${member}()`);
      },
      // spawn() is in order: it forks before it returns, on this thread.
      CallExpression({ callee }): void {
        if (callee.type !== "MemberExpression") return;
        const { property } = callee;
        if (property.type === "Identifier" && property.name === "output") {
          report(property, "output()");
        }
      },
      Property({ key, value }): void {
        const isOn = value.type === "Literal" && value.value === true;
        if (isOn && key.type === "Identifier" && key.name === "nonblocking") {
          report(key, "a nonblocking symbol");
        }
      },
    };
  },
};
