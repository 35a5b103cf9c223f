/**
 * The node's networks as text: a tree, and a Mermaid flowchart for Markdown.
 *
 * @module
 */

import { showControls, type Style } from "../../base/command_line/style.ts";
import { shorten } from "../../base/command_line/table.ts";
import { shortenId } from "../node/target.ts";
import {
  describeInterface,
  type GroupView,
  type InterfaceView,
  type NodeView,
  type SandboxView,
  titleOf,
} from "./model.ts";

/** A line and what is below it. */
interface Branch {
  readonly text: string;
  readonly mark?: ((text: string) => string) | undefined;
  readonly branches?: readonly Branch[];
}

/** Formats the tree, cut to the terminal's width. */
export function formatTree(view: NodeView, style: Style): string {
  const { width = Infinity } = style;
  const lines: string[] = [style.bold(shorten(view.node, width))];
  const draw = (branches: readonly Branch[], indent: string): void => {
    for (
      const [at, { text, mark, branches: below = [] }] of branches.entries()
    ) {
      const isLast = at === branches.length - 1;
      const line = `${indent}${isLast ? "└─ " : "├─ "}`;
      const room = Math.max(10, width - line.length);
      const shown = shorten(showControls(text), room);
      lines.push(line + (mark?.(shown) ?? shown));
      draw(below, `${indent}${isLast ? "   " : "│  "}`);
    }
  };
  draw([
    ...view.uplinks.map(({ name, addresses, gateways }): Branch => ({
      text: [
        `${name}  uplink`,
        ...addresses,
        ...gateways.map((gateway) => `default via ${gateway}`),
      ].join("  "),
    })),
    ...view.groups.map((group) => branchOfGroup(group, style)),
    ...view.staying.length === 0 ? [] : [{
      text: "persistent addresses",
      mark: style.bold,
      branches: view.staying.map((one) => ({
        text: `${one.address}  ${one.network}  for ${one.pod} ` +
          `${one.interface}  until ${one.until}`,
      })),
    }],
  ], "");
  return lines.join("\n");
}

/** Describes the links of sandboxes in a line. */
export function describeGroup(
  { kind, addresses, isUp, mtu, hasVlanFiltering }: GroupView,
): string[] {
  if (kind === "none" || kind === "routed") return [];
  return [
    kind,
    ...addresses,
    ...mtu === null ? [] : [`mtu ${mtu}`],
    ...hasVlanFiltering ? ["VLAN filtering"] : [],
    ...isUp ? [] : ["down"],
  ];
}

function branchOfGroup(group: GroupView, style: Style): Branch {
  const { name, sandboxes, foreignPorts, isUp } = group;
  return {
    text: [name, ...describeGroup(group)].join("  "),
    mark: isUp ? style.bold : style.red,
    branches: [
      ...sandboxes.map((sandbox) => branchOfSandbox(sandbox, style)),
      ...foreignPorts.length === 0 ? [] : [{
        text: `foreign ports: ${foreignPorts.join(", ")}`,
        mark: style.yellow,
      }],
    ],
  };
}

function branchOfSandbox(sandbox: SandboxView, style: Style): Branch {
  const { containerIDs, netns, exists, isForeign } = sandbox;
  const ids = containerIDs.map(shortenId).join(", ");
  const words = [
    titleOf(sandbox),
    sandbox.pod === null || netns === "" ? "" : netns,
    ids,
    isForeign ? "foreign" : "",
    exists === null ? "cannot be read" : exists ? "" : "gone",
  ];
  return {
    text: words.filter((word) => word !== "").join("  "),
    mark: exists === false ? style.red : isForeign ? style.yellow : style.green,
    branches: [
      ...sandbox.interfaces.map((one) => branchOfInterface(one, style)),
      ...sandbox.rules.map((text) => ({ text: `rule ${text}` })),
    ],
  };
}

function branchOfInterface(view: InterfaceView, style: Style): Branch {
  const [first = "", ...facts] = describeInterface(view);
  return {
    text: `${view.name}  ${first}`,
    mark: view.network === null ? style.yellow : undefined,
    branches: [
      ...facts.map((text): Branch => ({ text })),
      ...view.differences.map((text) => ({
        text: `✗ ${text}`,
        mark: style.red,
      })),
    ],
  };
}

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
