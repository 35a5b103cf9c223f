/**
 * Finds out what an identifier refers to, without a type checker.
 *
 * @module
 */

const GLOBAL_OBJECTS = ["globalThis", "self", "window"];

function isGlobalObject(node: Deno.lint.Node): boolean {
  return node.type === "Identifier" && GLOBAL_OBJECTS.includes(node.name);
}

/**
 * Reports whether an identifier names a variable or a type, rather than a key of
 * something else: `process` does in `f(process)` and `globalThis.process`, but
 * not in `child.process` and `{ process: 1 }`.
 */
export function isReference(node: Deno.lint.Identifier): boolean {
  const { parent } = node;
  switch (parent.type) {
    case "MemberExpression":
      return parent.property !== node || parent.computed ||
        isGlobalObject(parent.object);
    case "Property":
      return parent.value === node || parent.computed;
    case "PropertyDefinition":
    case "MethodDefinition":
    case "TSAbstractPropertyDefinition":
    case "TSAbstractMethodDefinition":
    case "TSPropertySignature":
    case "TSMethodSignature":
      return parent.key !== node || parent.computed;
    case "TSQualifiedName":
      return parent.left === node;
    default:
      return true;
  }
}

function isDeno(node: Deno.lint.Node): boolean {
  return node.type === "Identifier" && node.name === "Deno" ||
    node.type === "MemberExpression" && isGlobalObject(node.object) &&
      nameOf(node.property) === "Deno";
}

/** The name that a key spells: `exit` for `exit` and for `"exit"`. */
function nameOf(key: Deno.lint.Node): string | undefined {
  if (key.type === "Identifier") return key.name;
  if (key.type === "Literal") return String(key.value);
  return undefined;
}

/** Returns `exit` for `Deno.exit` and `Deno["exit"]`. */
export function findDenoMember(
  node: Deno.lint.MemberExpression,
): string | undefined {
  return isDeno(node.object) ? nameOf(node.property) : undefined;
}

/** Returns `exit` and `env` for `{ exit, env: environment } = Deno`. */
export function listDestructuredDenoMembers(
  node: Deno.lint.VariableDeclarator,
): string[] {
  if (!node.init || !isDeno(node.init)) return [];
  if (node.id.type !== "ObjectPattern") return [];
  return node.id.properties.flatMap((property) =>
    property.type === "Property" ? nameOf(property.key) ?? [] : []
  );
}
