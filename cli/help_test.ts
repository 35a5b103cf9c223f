import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { cnitool } from "./cnitool.ts";
import { cni } from "./commands.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { flagsOf } from "../base/command_line/command.ts";
import {
  formatCommandHelp,
  formatProgramHelp,
  withTexts,
} from "../base/command_line/help.ts";
import { parseCommandLine } from "../base/command_line/parse.ts";
import { runCni } from "../tests/_harness/tool_call.ts";
import { chooseStyle } from "../base/command_line/style.ts";

const plain = chooseStyle(false);
const shown = await Promise.all(
  cni.rows.filter(({ isHidden }) => isHidden !== true)
    .map((row) => withTexts(cni, row)),
);

Deno.test("every example in the help is a valid command line", async (t) => {
  for (const { name, examples = {} } of shown) {
    await eachRow(t, Object.keys(examples), (line) => {
      const [, command = ""] = /(?:^|[(;] ?)cni ([^|&>)]+)/.exec(line) ?? [];
      const { row } = parseCommandLine(cni, command.trim().split(" "));
      assertEquals(row?.name, name);
    });
  }
});

testRows("formatCommandHelp() shows everything in 78 columns", shown, (row) => {
  const help = formatCommandHelp("cni", row, plain);
  for (const { name, summary, isHidden } of row.args ?? []) {
    if (isHidden) {
      assert(!help.includes(name));
      continue;
    }
    assertStringIncludes(help, `  ${name}`);
    assertStringIncludes(help, summary.split(" ")[0] ?? "");
  }
  for (const flag of Object.keys(row.flags ?? {})) {
    assertStringIncludes(help, `      --${flag}`.slice(6));
  }
  const long = help.split("\n")
    .filter((line) => line.length > 78 && !line.startsWith("  cni "));
  assertEquals(long, []);
}, (row) => row.name);

Deno.test("formatCommandHelp() lines up two columns", () => {
  const row = shown.find(({ name }) => name === "version");
  assert(row !== undefined);
  assertEquals(
    formatCommandHelp("cni", row, plain),
    `Print the version.

Usage: cni version [FLAGS]

Flags:
      --json  print one JSON document, errors included
  -h, --help  show this help`,
  );
});

Deno.test("formatProgramHelp() lists all commands or a group of commands", () => {
  const all = formatProgramHelp(cni, plain);
  for (const { name } of shown) assertStringIncludes(all, `  ${name} `);
  assert(!all.includes("__complete"));
  const group = formatProgramHelp(cni, plain, "netns");
  assertStringIncludes(group, "Usage: cni netns COMMAND");
  assertStringIncludes(group, "\n  add   Create");
  assert(!group.includes("NETWORK"));
  assertStringIncludes(
    formatProgramHelp(cni, chooseStyle(true)),
    "\u001b[1mCommands:\u001b[22m",
  );
});

// Flags may come before the command, where only their names are known.
Deno.test("all flags of one name have a value, or none", () => {
  const kinds = new Map<string, boolean>();
  for (const row of cni.rows) {
    for (const [name, { value }] of Object.entries(flagsOf(row))) {
      const hasValue = value !== undefined;
      assertEquals(kinds.get(name) ?? hasValue, hasValue, name);
      kinds.set(name, hasValue);
    }
  }
});

Deno.test("every synonym stands for an existing command", () => {
  const names = cni.rows.map(({ name }) => name);
  const firstWords = names.map((name) => name.split(" ")[0]);
  for (const [word, command] of Object.entries(cni.synonyms ?? {})) {
    assert(names.includes(command), command);
    assert(!firstWords.includes(word), word);
  }
});

Deno.test("cni help refuses extra arguments", async () => {
  const { stdout, stderr, exitCode } = await runCni("help", "add", "extra");
  assertEquals([stdout, exitCode], ["", 1]);
  assertStringIncludes(stderr, 'unexpected argument "extra"');
  const same = await runCni("help", "ls");
  assertEquals(same, await runCni("list", "--help"));
});

Deno.test("cnitool --help lists all commands", () => {
  const help = formatProgramHelp(cnitool, plain);
  for (const name of ["add", "check", "del", "gc", "help", "status"]) {
    assertStringIncludes(help, `\n  ${name} `);
  }
  assertStringIncludes(help, "\n  validate  Checks");
});

Deno.test("every text of the help belongs to a command", async () => {
  const { loadHelpTexts } = await import("./help_texts.ts");
  const names = shown.map(({ name }) => name);
  const others = Object.keys(await loadHelpTexts())
    .filter((name) => !names.includes(name));
  assertEquals(others, []);
});
