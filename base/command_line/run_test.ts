import { assertEquals, assertStringIncludes } from "@std/assert";
import { CniError } from "../error.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  type CommandCall,
  type Output,
  type Program,
  readDuration,
  readTimeLimit,
} from "./command.ts";
import { Interruption } from "./interrupt.ts";
import { runTool, type Terminal } from "./run.ts";

/** Runs a tool with one command. */
async function run(
  argv: string[],
  command: (call: CommandCall) => Output | Promise<Output>,
  terminal: Partial<Terminal> = {},
  program: Partial<Program> = {},
): Promise<{ stdout: string; stderr: string; exitCode: number }> {
  let stderr = "";
  const load = (): Promise<typeof command> => Promise.resolve(command);
  const rows = [{
    name: "go",
    summary: "Goes",
    flags: { "all": { summary: "all" } },
    timeout: "1m",
    load,
  }];
  const tool = { name: "tool", about: "Tries.", rows, ...program };
  const ended = await runTool(tool, argv, {
    env: {},
    isTerminal: false,
    onStderr: (text) => stderr += text,
    interrupt: new AbortController().signal,
    ...terminal,
  });
  return { ...ended, stderr };
}

const greet = (): Output => ({
  json: { greeting: "hello" },
  text: (style) => style.bold("hello"),
  note: "by the way",
});

const refuse = (): Output => {
  throw new CniError(11, "later", { details: "busy" });
};

Deno.test("a note does not control the terminal", async () => {
  const note = "pod \x1b]0;owned\x07\nnext \x9b2J";
  const { stderr } = await run(["go"], () => ({ json: {}, text: "", note }));
  assertEquals(stderr, "pod \\u001b]0;owned\\u0007\nnext \\u009b2J\n");
});

Deno.test("runTool() prints for people or for programs", async (t) => {
  const terminal = { isTerminal: true };
  const rows: [
    name: string,
    argv: string[],
    terminal: Partial<Terminal>,
    want: [stdout: string, stderr: string],
  ][] = [
    ["a pipe", [], {}, ["hello\n", "by the way\n"]],
    ["a terminal", [], terminal, [
      "\u001b[1mhello\u001b[22m\n",
      "by the way\n",
    ]],
    ["no colours", [], { ...terminal, env: { NO_COLOR: "1" } }, [
      "hello\n",
      "by the way\n",
    ]],
    ["--json", ["--json"], terminal, ['{\n    "greeting": "hello"\n}\n', ""]],
  ];
  await eachRow(t, rows, async ([, argv, terminal, [stdout, stderr]]) => {
    const ended = await run(["go", ...argv], greet, terminal);
    assertEquals(ended, { stdout, stderr, exitCode: 0 });
  });
});

Deno.test("runTool() ends bare text with a newline only on terminals", async () => {
  const bare = (): Output => ({ json: {}, text: "{}", isBare: true });
  assertEquals((await run(["go"], bare)).stdout, "{}");
  assertEquals((await run(["go"], bare, { isTerminal: true })).stdout, "{}\n");
  const silent = (): Output => ({ json: {}, text: "" });
  const ended = await run(["go"], silent, { isTerminal: true });
  assertEquals(ended.stdout, "");
});

Deno.test("runTool() prints failures as text or as a document", async () => {
  assertEquals(await run(["go"], refuse), {
    stdout: "",
    stderr: "later; busy\n",
    exitCode: 1,
  });
  const { stdout, stderr, exitCode } = await run(["go", "--json"], refuse);
  assertEquals([JSON.parse(stdout), stderr, exitCode], [
    { code: 11, msg: "later", details: "busy" },
    "",
    1,
  ]);
});

Deno.test("runTool() escapes terminal control codes", async () => {
  const { stderr } = await run(["go"], () => {
    throw new Error("a\u001b[2Jb\nc");
  });
  assertEquals(stderr, "a\\u001b[2Jb\nc\n");
});

Deno.test("runTool() reports usage errors", async (t) => {
  const rows: [argv: string[], stderr: string][] = [
    [["gone"], 'Cannot run "tool gone": unknown command; did you mean go?\n'],
    [
      ["go", "x"],
      'Cannot run "tool go": unexpected argument "x"; usage: tool go\n',
    ],
    [
      ["go", "--timeout", "soon"],
      'Cannot run "tool go": --timeout must be a duration such as 500ms, 45s, 2m or 1h30m, not "soon"; see tool go --help\n',
    ],
    [[], 'Cannot run "tool": a command is missing\n'],
  ];
  await eachRow(t, rows, async ([argv, stderr]) => {
    const ended = await run(argv, greet);
    assertEquals([ended.stdout, ended.exitCode], ["", 1]);
    assertStringIncludes(ended.stderr, stderr);
    const json = await run([...argv, "--json"], greet);
    const { code, msg } = JSON.parse(json.stdout);
    assertEquals([json.stderr, json.exitCode], ["", 1]);
    assertStringIncludes(`${msg}\n`, stderr);
    assertEquals(code, 4);
  }, ([argv]) => argv.join(" "));
});

Deno.test("runTool() prints the help of a program that helps without a command", async () => {
  const program = { helpsWithoutCommand: true };
  const { stdout, stderr, exitCode } = await run([], greet, {}, program);
  assertEquals([stderr, exitCode], ["", 0]);
  assertStringIncludes(stdout, "Usage: tool COMMAND");
});

Deno.test("runTool() exits like a process killed by the signal", async () => {
  const controller = new AbortController();
  const ended = await run(["go"], (call) => {
    controller.abort(new Interruption("SIGTERM"));
    assertEquals(call.signal.aborted, true);
    throw new Error("given up");
  }, { interrupt: controller.signal });
  assertEquals(ended, {
    stdout: "",
    stderr: "interrupted by SIGTERM\ngiven up\n",
    exitCode: 143,
  });
});

Deno.test("runTool() says once that it was interrupted", async () => {
  const controller = new AbortController();
  const ended = await run(["go"], (call) => {
    controller.abort(new Interruption("SIGINT"));
    call.signal.throwIfAborted();
    throw new Error("not aborted");
  }, { interrupt: controller.signal });
  assertEquals(ended, {
    stdout: "",
    stderr: "interrupted by SIGINT\n",
    exitCode: 130,
  });
});

Deno.test("runTool() limits the time of a command", async (t) => {
  const waitForEnd = async ({ signal }: CommandCall): Promise<Output> => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return { json: {}, text: "over" };
  };
  await t.step("to --timeout", async () => {
    const ended = await run(["go", "--timeout", "10ms"], waitForEnd);
    assertEquals(ended.stdout, "over\n");
  });
  const tell = ({ timeoutMs }: CommandCall): Output => ({
    json: {},
    text: `${timeoutMs}`,
  });
  await t.step("or its own", async () => {
    assertEquals((await run(["go"], tell)).stdout, "60000\n");
  });
  await t.step("or not", async () => {
    assertEquals((await run(["go", "--timeout=0"], tell)).stdout, "0\n");
  });
});

Deno.test("runTool() prints help and version", async () => {
  const version = await run(["--version"], greet);
  assertEquals([version.stdout, version.exitCode], ["tool 0.1.0\n", 0]);
  const help = await run(["--help"], greet);
  assertStringIncludes(help.stdout, "  go  Goes\n");
  const command = await run(["go", "--help"], greet);
  assertStringIncludes(command.stdout, "Usage: tool go [FLAGS]\n");
  assertStringIncludes(command.stdout, "(default 1m)");
});

Deno.test("runTool() passes progress on unless the output is JSON", async () => {
  const shown: string[] = [];
  const terminal = {
    onProgress: (text: string): void => void shown.push(text),
  };
  const command = (call: CommandCall): Output => {
    call.onProgress?.("1/2");
    return greet();
  };
  await run(["go"], command, terminal);
  await run(["go", "--json"], command, terminal);
  await run(["go"], command);
  assertEquals(shown, ["1/2"]);
});

Deno.test("readTimeLimit() returns what a timer takes, readDuration() all", async () => {
  const found: number[] = [];
  const { exitCode } = await run(["go", "--timeout", "720h"], (call) => {
    found.push(readTimeLimit(call, "timeout"), readDuration(call, "timeout"));
    return greet();
  });
  assertEquals([exitCode, ...found], [0, 2 ** 31 - 1, 720 * 3_600_000]);
});
