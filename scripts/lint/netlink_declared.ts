/**
 * Lint rule `cni/netlink-declared`: bytes are laid out in few places.
 *
 * @module
 */

import { isIn, productPath } from "./project_files.ts";
import { isReference } from "./references.ts";

/** The product's codecs. Scripts and tests are free. */
const CODECS = [
  "net/bytes.ts",
  "ffi/netlink/",
  "ffi/nftables/",
  "ffi/errno.ts",
  "ffi/libc/",
  "ffi/netns.ts",
  "ffi/packet.ts",
];

/** Reports whether an expression is a mask of low bits: 3, 7 or `align - 1`. */
function isLowBits(node: Deno.lint.Node): boolean {
  if (node.type === "BinaryExpression") {
    return node.operator === "-" && node.right.type === "Literal" &&
      node.right.value === 1;
  }
  return node.type === "Literal" && (node.value === 3 || node.value === 7);
}

/** Reports whether an operand of `&` clears low bits: `~3`, `~7`, `~(align - 1)`. */
function isAlignmentMask(node: Deno.lint.Node): boolean {
  return node.type === "UnaryExpression" && node.operator === "~" &&
    isLowBits(node.argument);
}

/** Reports `DataView` and alignment arithmetic outside the codecs. */
export const netlinkDeclared: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = productPath(context);
    if (path === undefined || isIn(path, CODECS)) return {};
    const hint = "Declare the layout with struct() or attributeSet()";
    return {
      Identifier(node): void {
        if (node.name !== "DataView" || !isReference(node)) return;
        context.report({ node, message: "DataView outside a codec", hint });
      },
      BinaryExpression(node): void {
        if (node.operator !== "&") return;
        if (!isAlignmentMask(node.left) && !isAlignmentMask(node.right)) return;
        context.report({ node, message: "Alignment outside a codec", hint });
      },
    };
  },
};
