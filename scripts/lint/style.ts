/**
 * Lint rules for the language: `cni/no-enum`, `cni/no-private-keyword`,
 * `cni/no-default-export` and `cni/error-message`.
 *
 * @module
 */

import { isTest, projectPath } from "./project_files.ts";

/** Deno's plugin API reads the default export. */
const MAY_EXPORT_DEFAULT = "scripts/lint_plugin.ts";

/** Reports enums: `as const` objects need no code at run time. */
export const noEnum: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    return {
      TSEnumDeclaration(node): void {
        const message = 'Declare an object "as const" rather than an enum';
        context.report({ node, message });
      },
    };
  },
};

/**
 * Reports the `private` keyword: `#` is private at run time too. Constructors
 * may be private, as they have no other way to be.
 */
export const noPrivateKeyword: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    function check(node: Deno.lint.Node): void {
      if (node.type === "MethodDefinition" && node.kind === "constructor") {
        return;
      }
      // From the text, since the nodes of parameters lack `accessibility`.
      const text = context.sourceCode.getText(node);
      if (!/^private\s+[\w[*"']/.test(text)) return;
      context.report({ node, message: 'Write "#" rather than "private"' });
    }
    return {
      AccessorProperty: check,
      MethodDefinition: check,
      PropertyDefinition: check,
      TSAbstractMethodDefinition: check,
      TSAbstractPropertyDefinition: check,
      TSParameterProperty: check,
    };
  },
};

/** Reports default exports: a name that the importer chooses cannot be searched. */
export const noDefaultExport: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    if (projectPath(context.filename) === MAY_EXPORT_DEFAULT) return {};
    function report(node: Deno.lint.Node): void {
      context.report({ node, message: "Export by name" });
    }
    return {
      ExportDefaultDeclaration: report,
      ExportSpecifier(node): void {
        const { exported } = node;
        const isDefault = exported.type === "Identifier" &&
          exported.name === "default";
        if (isDefault) report(node);
      },
    };
  },
};

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
