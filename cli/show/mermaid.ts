/**
 * The node's networks as a Mermaid flowchart, for Markdown.
 *
 * @module
 */

import { describeInterface, type NodeView, titleOf } from "./model.ts";
import { describeGroup } from "./tree.ts";

/** Formats a flowchart: links of the node on the left, namespaces on the right. */
export function formatMermaid({ node, uplinks, groups }: NodeView): string {
  const lines = ["flowchart LR", `  subgraph node["${quote(node)}"]`];
  for (const [at, { name, addresses }] of uplinks.entries()) {
    lines.push(`    u${at}(["${join([name, ...addresses])}"])`);
  }
  for (const [at, group] of groups.entries()) {
    lines.push(`    g${at}["${join([group.name, ...describeGroup(group)])}"]`);
  }
  lines.push("  end");
  for (const [at, { sandboxes }] of groups.entries()) {
    for (const [index, sandbox] of sandboxes.entries()) {
      const id = `g${at}s${index}`;
      const facts = sandbox.interfaces.flatMap((view) => [
        `${view.name}: ${describeInterface(view).join(", ")}`,
        ...view.differences.map((text) => `✗ ${text}`),
      ]);
      lines.push(`  ${id}["${join([titleOf(sandbox), ...facts])}"]`);
      const names = sandbox.interfaces.map(({ name }) => name).join(", ");
      lines.push(
        names === ""
          ? `  g${at} --- ${id}`
          : `  g${at} ---|"${quote(names)}"| ${id}`,
      );
      if (
        sandbox.interfaces.some(({ differences }) => differences.length > 0)
      ) {
        lines.push(`  style ${id} stroke:#d33,stroke-width:2px`);
      } else if (sandbox.isForeign) {
        lines.push(`  style ${id} stroke-dasharray:5 5`);
      }
    }
  }
  return lines.join("\n");
}

function join(words: readonly string[]): string {
  return words.map(quote).join("<br/>");
}

/** Replaces characters that Mermaid or HTML would interpret. */
function quote(text: string): string {
  return text.replace(
    /[^\p{L}\p{N} .,:/\-_→≤✗·()]/gu,
    (character) => `#${character.codePointAt(0)};`,
  );
}
