/**
 * Lint rule `cni/error-message`: how the text of an error begins and ends.
 *
 * @module
 */

import { isTest, projectPath } from "./project_files.ts";

/** Returns the fixed first and last words of a text, where it has any. */
function edgesOf(node: Deno.lint.Node): [start: string, end: string] {
  if (node.type === "Literal" && typeof node.value === "string") {
    return [node.value, node.value];
  }
  if (node.type === "TemplateLiteral") {
    return [node.quasis.at(0)?.cooked ?? "", node.quasis.at(-1)?.cooked ?? ""];
  }
  if (node.type === "BinaryExpression" && node.operator === "+") {
    return [edgesOf(node.left)[0], edgesOf(node.right)[1]];
  }
  return ["", ""];
}

/** Reports error texts that end in a period or announce themselves as errors. */
export const errorMessage: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = projectPath(context.filename);
    // Tests quote other programs' messages.
    if (path === undefined || isTest(path)) return {};

    function check(node: Deno.lint.Node): void {
      const [start, end] = edgesOf(node);
      if (/\.\s*$/.test(end)) {
        const message = "An error message ends without a period";
        context.report({ node, message });
      }
      if (/^\s*error:/i.test(start)) {
        const message = 'An error message begins without "Error:"';
        context.report({ node, message });
      }
    }

    return {
      NewExpression({ callee, arguments: parameters }): void {
        if (callee.type !== "Identifier") return;
        if (callee.name.endsWith("Error")) parameters.forEach(check);
      },
    };
  },
};
