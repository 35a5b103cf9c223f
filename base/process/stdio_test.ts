import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { asModule } from "../../tests/_harness/as_module.ts";
import { testRows } from "../../tests/_harness/table.ts";

const MODULE = new URL("./stdio.ts", import.meta.url);

/** What a pipe holds, if nobody has asked for more. Source: pipe(7). */
const PIPE_BYTES = 65536;

/**
 * Starts a process that runs some of this module's functions.
 *
 * @param code What it does with `stdio`
 * @param script What the shell does before, to the streams
 */
function start(code: string, script = ""): Deno.ChildProcess {
  const program = `import * as stdio from "${MODULE}";\n${code}`;
  return new Deno.Command("sh", {
    args: ["-c", `${script}\nexec "$@"`, "sh", Deno.execPath(), "run"]
      .concat("-A", "--no-config", asModule(program)),
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** dd(1) sets the flag on the stream that it was given, and there it stays. */
const STDOUT_DOES_NOT_WAIT = "dd oflag=nonblock count=0 2> /dev/null";

/** Waits until a process does nothing, which it does when it waits itself. */
async function untilAsleep({ pid }: Deno.ChildProcess): Promise<void> {
  const deadlineMs = performance.now() + 60_000;
  for (let seen = 0; seen < 20;) {
    assert(performance.now() < deadlineMs, "it never waited");
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
    seen = stat.includes(") S ") ? seen + 1 : 0;
  }
}

/** Waits until a process has written so much, to whatever. */
async function untilWritten(
  { pid }: Deno.ChildProcess,
  bytes: number,
): Promise<void> {
  const deadlineMs = performance.now() + 60_000;
  for (let written = 0; written < bytes;) {
    assert(performance.now() < deadlineMs, "it never wrote");
    const io = await Deno.readTextFile(`/proc/${pid}/io`);
    written = Number(/wchar: (\d+)/.exec(io)?.[1]);
  }
}

/** Reads the rest of what a process prints, in small portions. */
async function readSlowly(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
): Promise<string> {
  const reader = stream.getReader({ mode: "byob" });
  const decoder = new TextDecoder();
  let text = "";
  for (let size = 1;; size = size * 7 % 5003) {
    const { value, done } = await reader.read(new Uint8Array(size));
    text += decoder.decode(value, { stream: !done });
    if (done) return text;
  }
}

testRows("writeStdout() writes all to a pipe that is full and does not wait", [
  [
    "lines",
    `JSON.stringify(Array.from({ length: 40000 }, (_, i) => i), null, 4)`,
  ],
  ["one line", `"ä".repeat(${2 * PIPE_BYTES})`],
  [
    "lines of every length",
    `Array.from({ length: 400 }, (_, i) => "z".repeat(i * 37 % 5000)).join("\\n")`,
  ],
], async ([, text]: [string, string]) => {
  const code = `const problem = stdio.writeStdout(${text});
        if (problem) stdio.writeStderr(problem);`;
  const child = start(code, STDOUT_DOES_NOT_WAIT);
  await child.stdin.close();
  // Whole lines leave the end of each page empty.
  await untilWritten(child, PIPE_BYTES / 2);
  await untilAsleep(child);
  const [stdout, stderr] = await Promise.all([
    readSlowly(child.stdout),
    new Response(child.stderr).text(),
  ]);
  assertEquals([(await child.status).code, stderr], [0, ""]);
  const expected: string = new Function(`return ${text}`)();
  assert(stdout === expected, `${stdout.length} of ${expected.length}`);
});

Deno.test("readStdin() refuses a stream that does not end", async () => {
  const child = start(
    `try { stdio.readStdin(); } catch ({ message }) { stdio.writeStderr(message); }`,
    'exec < "/dev/zero"',
  );
  await child.stdin.close().catch(() => {});
  const { code, stderr } = await child.output();
  assertEquals(
    [code, new TextDecoder().decode(stderr)],
    [0, "it has more than 16777216 bytes"],
  );
});

Deno.test("writeStdout() tells what is in the way", async () => {
  const child = start(
    `stdio.writeStderr(String(stdio.writeStdout("a")));`,
    "exec > /dev/full",
  );
  await child.stdin.close();
  const { code, stderr } = await child.output();
  assertEquals(code, 0);
  assertStringIncludes(new TextDecoder().decode(stderr), "No space left");
});

testRows("writeStdout() finds nothing in the way where nobody reads", [
  ["/dev/null", "exec > /dev/null"],
  ["/dev/null for both directions", "exec 1<> /dev/null"],
  ["what Deno opens in place of a closed stream", "exec >&-"],
], async ([, script]: [string, string]) => {
  const child = start(
    `stdio.writeStderr(String(stdio.writeStdout("a")));`,
    script,
  );
  await child.stdin.close();
  const { code, stderr } = await child.output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, "undefined"]);
});

Deno.test("sendConsoleToStderr() leaves nothing of the console on stdout", async () => {
  const child = start(`stdio.sendConsoleToStderr();
    for (const [name, method] of Object.entries(console)) {
      if (typeof method === "function") method("said by " + name);
    }`);
  await child.stdin.close();
  const { stdout, stderr } = await child.output();
  assertEquals(new TextDecoder().decode(stdout), "");
  for (const name of ["log", "info", "debug", "table", "error"]) {
    assertStringIncludes(new TextDecoder().decode(stderr), `said by ${name}\n`);
  }
});

Deno.test("calledAs() is the name of a link, not of what that leads to", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const link = `${directory}/some-plugin`;
    await Deno.symlink(Deno.execPath(), link);
    const module = JSON.stringify(MODULE);
    const script = `console.log((await import(${module})).calledAs());`;
    const { stdout } = await new Deno.Command(link, {
      args: ["run", "-A", "--no-config", asModule(script)],
    }).output();
    assertEquals(new TextDecoder().decode(stdout), "some-plugin\n");
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
