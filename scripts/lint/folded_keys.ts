/**
 * Lint rule `cni/folded-keys`: keys of a plugin's configuration are
 * case-insensitive, so code reads them with `findValue()`, `ipamOf()` or
 * `ipamTypeOf()`, or from what a schema has decoded.
 *
 * The rule is about the JSON of a configuration, which the code calls `document`.
 * It knows the exact keys of a list, which are case-sensitive.
 *
 * Source: Go encoding/json, and containernetworking/cni libcni/conf.go
 * `NetworkConfFromBytes`, which reads a list as a map.
 *
 * @module
 */

import { isIn, productPath } from "./project_files.ts";

/** Keys of lists, and those of all results and Kubernetes objects. */
const EXACT_KEYS: ReadonlySet<string> = new Set([
  ...["name", "cniVersion", "cniVersions", "plugins", "disableCheck"],
  ...["disableGC", "loadOnlyInlinedPlugins", "apiVersion", "kind"],
]);

/**
 * Files whose `document` is not a configuration of a plugin: a result, an answer, a
 * record or a file of settings.
 */
const OTHER_DOCUMENTS = [
  "base/log/log_file.ts",
  "cli/doctor/attachments.ts",
  "cli/report/collect.ts",
  "cni/invoke/",
  "daemon/server/http_calls.ts",
  "kube/",
  "libcni/cache.ts",
  "plugins/remote/contiv_protocol.ts",
  "plugins/tuning/backup.ts",
];

/** Reports keys of configurations that are read in one spelling only. */
export const foldedKeys: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = productPath(context);
    if (path === undefined || isIn(path, OTHER_DOCUMENTS)) return {};
    // To visit the nodes of a file takes longer than to read its text.
    if (!/\bdocument\b/.test(context.sourceCode.text)) return {};

    function check(node: Deno.lint.Node, key: string | undefined): void {
      if (key === undefined || EXACT_KEYS.has(key)) return;
      const message = `"${key}" may be spelt in another case: use ` +
        `findValue() of base/json/json.ts, or ipamOf() of cni/config/ipam.ts`;
      context.report({ node, message });
    }

    function checkPattern(pattern: Deno.lint.Node): void {
      if (pattern.type !== "ObjectPattern") return;
      for (const property of pattern.properties) {
        if (property.type === "Property") {
          check(property, spelledKey(property.key, property.computed));
        }
      }
    }

    return {
      MemberExpression(node): void {
        if (!isDocument(node.object)) return;
        check(node, node.computed ? literalOf(node.property) : undefined);
      },
      VariableDeclarator({ id, init }): void {
        if (init && isDocument(init)) checkPattern(id);
      },
      Property({ key, value }): void {
        if (spelledKey(key, false) === "document") checkPattern(value);
      },
    };
  },
};

function isDocument(node: Deno.lint.Node): boolean {
  switch (node.type) {
    case "Identifier":
      return node.name === "document";
    case "MemberExpression":
      return !node.computed && isDocument(node.property);
    case "TSAsExpression":
      return isDocument(node.expression);
    default:
      return false;
  }
}

function spelledKey(
  key: Deno.lint.Node,
  computed: boolean,
): string | undefined {
  return key.type === "Identifier" && !computed ? key.name : literalOf(key);
}

function literalOf(node: Deno.lint.Node): string | undefined {
  return node.type === "Literal" && typeof node.value === "string"
    ? node.value
    : undefined;
}
