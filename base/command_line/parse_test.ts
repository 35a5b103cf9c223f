import { assertEquals, assertThrows } from "@std/assert";
import { eachRow, testRows } from "../../tests/_harness/table.ts";
import type { CommandRow, Output, Program } from "./command.ts";
import { formatArguments, parseCommandLine } from "./parse.ts";
import { UsageError } from "./usage_error.ts";

const load = (): Promise<() => Output> =>
  Promise.resolve(() => ({ json: {}, text: "" }));
const rows: CommandRow[] = [
  {
    name: "add",
    summary: "Adds",
    args: [
      { name: "NETWORK", summary: "network" },
      { name: "NETNS", summary: "namespace", isOptional: true },
    ],
    flags: {
      "ifname": { short: "i", value: "NAME", summary: "name" },
      "all": { summary: "all" },
      "log": { default: true, summary: "logs" },
      "file": { value: "FILE", default: "", summary: "file" },
      "to": { value: "FORM", completes: ["a", "b", "c"], summary: "form" },
    },
    timeout: "1s",
    load,
  },
  {
    name: "gc",
    summary: "Collects",
    args: [{ name: "N", summary: "n", isOptional: true, isRepeated: true }],
    load,
  },
  { name: "netns list", summary: "Lists", load },
  {
    name: "netns exec",
    summary: "Runs",
    args: [
      { name: "NAME", summary: "name" },
      { name: "COMMAND", summary: "command", isRepeated: true },
    ],
    flags: { "cache-dir": { value: "DIR", summary: "directory" } },
    isWrapper: true,
    load,
  },
  { name: "serve", summary: "Serves", load },
  { name: "serve now", summary: "Serves now", load },
  { name: "secret", summary: "Hides", isHidden: true, load },
];
const synonyms = { "rm": "add", "exec": "netns exec" };
const program: Program = { name: "tool", about: "Tries", rows, synonyms };

/** A parsed command line in short form: command, arguments, flags. */
function parse(line: string): unknown[] {
  const argv = line === "" ? [] : line.split(" ");
  const { row, words, args, flags } = parseCommandLine(program, argv);
  const given = Object.entries(flags)
    .filter(([name, value]) =>
      value !== undefined && value !== "" && value !== (name === "log") &&
      value !== "1s"
    );
  return [row?.name ?? words.join(" "), [...args], Object.fromEntries(given)];
}

Deno.test("parseCommandLine() finds command, arguments and flags", async (t) => {
  const lines: [line: string, want: unknown[]][] = [
    ["add a", ["add", ["a"], {}]],
    ["add a b", ["add", ["a", "b"], {}]],
    ["add a -- --all", ["add", ["a", "--all"], {}]],
    ["serve", ["serve", [], {}]],
    ["serve now --json", ["serve now", [], { json: true }]],
    ["add a 0x10", ["add", ["a", "0x10"], {}]],
    ["add a --ifname x", ["add", ["a"], { ifname: "x" }]],
    ["add a --ifname=x=y", ["add", ["a"], { ifname: "x=y" }]],
    ["add --ifname=-x a", ["add", ["a"], { ifname: "-x" }]],
    ["add a --ifname - --all", ["add", ["a"], { ifname: "-", all: true }]],
    ["add a -", ["add", ["a", "-"], {}]],
    ["add -i 7 a", ["add", ["a"], { ifname: "7" }]],
    ["-i x add a", ["add", ["a"], { ifname: "x" }]],
    ["add a -i x -i y", ["add", ["a"], { ifname: "y" }]],
    ["--all add a --json", ["add", ["a"], { all: true, json: true }]],
    ["add a --timeout 0", ["add", ["a"], { timeout: "0" }]],
    ["add a -i=x", ["add", ["a"], { ifname: "x" }]],
    ["add a -inet1", ["add", ["a"], { ifname: "net1" }]],
    ["add a --file= --all", ["add", ["a"], { all: true }]],
    ["add a --file=a=b", ["add", ["a"], { file: "a=b" }]],
    ["add a --file= --file=b", ["add", ["a"], { file: "b" }]],
    ["add a --all=false --log=0", ["add", ["a"], { log: false }]],
    ["add a --all=TRUE --log=F", ["add", ["a"], { all: true, log: false }]],
    ["add a --all --log", ["add", ["a"], { all: true }]],
    ["add --all true", ["add", ["true"], { all: true }]],
    ["add a --to B", ["add", ["a"], { to: "b" }]],
    ["gc", ["gc", [], {}]],
    ["gc a b c", ["gc", ["a", "b", "c"], {}]],
    ["netns list", ["netns list", [], {}]],
    ["rm a", ["add", ["a"], {}]],
    ["-i rm rm rm --all", ["add", ["rm"], { ifname: "rm", all: true }]],
    ["add rm", ["add", ["rm"], {}]],
    ["--json exec a -- rm -f", ["netns exec", ["a", "rm", "-f"], {
      json: true,
    }]],
    ["--json netns list -h", ["netns list", [], { json: true, help: true }]],
    ["add --help", ["add", [], { help: true }]],
    ["netns", ["netns", [], {}]],
    ["netns --help", ["netns", [], { help: true }]],
    ["", ["", [], {}]],
    ["-V", ["", [], { version: true }]],
  ];
  await eachRow(t, lines, ([line, want]) => assertEquals(parse(line), want));
});

testRows("parseCommandLine() leaves another program's command line alone", [
  ["netns exec a ls", ["a", "ls"]],
  ["netns exec a -- ls", ["a", "ls"]],
  ["netns exec a ls -l --json", ["a", "ls", "-l", "--json"]],
  ["netns exec a -- ls --help", ["a", "ls", "--help"]],
  ["netns exec a ls --ifname -", ["a", "ls", "--ifname", "-"]],
  ["netns exec a -- --help", ["a", "--help"]],
  ["netns exec a ls -- b -- c", ["a", "ls", "--", "b", "--", "c"]],
  ["netns exec a -- ls -- b", ["a", "ls", "--", "b"]],
  ["netns exec -- a ls", ["a", "ls"]],
  ["--json netns exec a -- ls", ["a", "ls"], { json: true }],
  ["netns exec --cache-dir d a ls -c d", ["a", "ls", "-c", "d"], {
    "cache-dir": "d",
  }],
  ["netns --json exec a ls --json", ["a", "ls", "--json"], { json: true }],
], ([line, args, flags = {}]: [string, string[], object?]) => {
  assertEquals(parse(line), ["netns exec", args, flags]);
});

Deno.test("parseCommandLine() reports errors", async (t) => {
  const lines: [line: string, message: string][] = [
    ["ad", 'Cannot run "tool ad": unknown command; did you mean add?'],
    ["x", 'Cannot run "tool x": unknown command; see tool --help'],
    ["secre", 'Cannot run "tool secre": unknown command; see tool --help'],
    [
      "netns lst",
      'Cannot run "tool netns lst": unknown command; did you mean list?',
    ],
    [
      "add",
      'Cannot run "tool add": NETWORK is missing; usage: tool add NETWORK [NETNS]',
    ],
    [
      "add a b c",
      'Cannot run "tool add": unexpected argument "c"; usage: tool add NETWORK [NETNS]',
    ],
    [
      "serve no",
      'Cannot run "tool serve no": unknown command; did you mean now?',
    ],
    [
      "netns list x",
      'Cannot run "tool netns list": unexpected argument "x"; usage: tool netns list',
    ],
    [
      "netns exec a",
      'Cannot run "tool netns exec": COMMAND is missing; usage: tool netns exec NAME -- COMMAND...',
    ],
    [
      "add a --ifnam x",
      'Cannot run "tool add": unknown flag --ifnam; did you mean --ifname?',
    ],
    ["add a -x", 'Cannot run "tool add": unknown flag -x; see tool add --help'],
    [
      "add a --bogus=1",
      'Cannot run "tool add": unknown flag --bogus; see tool add --help',
    ],
    [
      "gc --ifname x",
      'Cannot run "tool gc": unknown flag --ifname; see tool gc --help',
    ],
    [
      "gc --timeout 1",
      'Cannot run "tool gc": unknown flag --timeout; see tool gc --help',
    ],
    [
      "add a --ifname",
      'Cannot run "tool add": --ifname needs a value, --ifname=NAME',
    ],
    [
      "add a --ifname=",
      'Cannot run "tool add": --ifname needs a value, --ifname=NAME',
    ],
    [
      "add a -i --json",
      'Cannot run "tool add": --ifname needs a value, --ifname=NAME',
    ],
    [
      "add a --file",
      'Cannot run "tool add": --file needs a value, --file=FILE',
    ],
    [
      "add a --all=yes",
      'Cannot run "tool add": --all must be true or false, not "yes"; see tool add --help',
    ],
    [
      "add a --all=",
      'Cannot run "tool add": --all must be true or false, not ""; see tool add --help',
    ],
    [
      "add a --to d",
      'Cannot run "tool add": --to must be a, b or c, not "d"; see tool add --help',
    ],
    [
      "add a -all",
      'Cannot run "tool add": unknown flag -all; did you mean --all?',
    ],
    [
      "add a --toString",
      'Cannot run "tool add": unknown flag --toString; did you mean --to?',
    ],
    ["--all", 'Cannot run "tool": unknown flag --all; see tool --help'],
    [
      "--__proto__ x",
      'Cannot run "tool": unknown flag --__proto__; see tool --help',
    ],
  ];
  await eachRow(t, lines, ([line, message]) => {
    const error = assertThrows(() => parse(line), UsageError);
    assertEquals(error.message, message);
  });
});

Deno.test("formatArguments() marks optional and repeated arguments", () => {
  assertEquals(rows.map(formatArguments), [
    "NETWORK [NETNS]",
    "[N...]",
    "",
    "NAME -- COMMAND...",
    "",
    "",
    "",
  ]);
});
