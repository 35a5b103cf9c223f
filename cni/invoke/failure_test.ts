import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  type Failure,
  failure,
  startFailure,
  unstartedFailure,
} from "./failure.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** The exit status of a plugin that prints nothing. */
const SILENT: Failure = {
  stdout: "",
  stderr: "",
  cause: "exit status 1",
  elapsedMs: 12.3,
};

const NOTHING = "netplugin failed with no error message";
const UNPARSED = "netplugin failed but error parsing its diagnostic message";
const TIMEOUT = AbortSignal.abort(new DOMException("", "TimeoutError"));

Deno.test("failure() is the error that the plugin printed", async (t) => {
  const rows: [
    name: string,
    stdout: string,
    expected: { code: number; msg: string; details?: string },
  ][] = [
    ["in full", '{"code":11,"msg":"later","details":"d"}', {
      code: 11,
      msg: "later",
      details: "d",
    }],
    ["with empty details", '{"code":100,"msg":"m","details":""}', {
      code: 100,
      msg: "m",
    }],
    [
      "with details that are not a string",
      '{"code":100,"msg":"m","details":[]}',
      { code: 100, msg: "m" },
    ],
    ["with keys in another case", '{"Code":7,"MSG":"m","Details":"d"}', {
      code: 7,
      msg: "m",
      details: "d",
    }],
    ["without a code", '{"msg":"m"}', { code: 0, msg: "m" }],
    ["with code 0", '{"code":0,"msg":"m"}', { code: 0, msg: "m" }],
    ["with a code alone", '{"code":50}', {
      code: 50,
      msg: `${NOTHING}: exit status 1`,
    }],
    ["with an empty message", '{"code":7,"msg":"","details":"d"}', {
      code: 7,
      msg: `${NOTHING}: exit status 1`,
      details: "d",
    }],
    ["with white space around it", '\n {"code":7,"msg":"m"}\n', {
      code: 7,
      msg: "m",
    }],
  ];
  await eachRow(t, rows, ([, stdout, expected]) => {
    const error = failure("/p", { ...SILENT, stdout, stderr: "log" });
    assertEquals(error.toObject("1.1.0"), { cniVersion: "1.1.0", ...expected });
  });
});

Deno.test("failure() reports what is known if there is no error", async (t) => {
  const ended = "/p ended after 12 ms: exit status 1";
  const rows: [string, Partial<Failure>, string, string][] = [
    ["nothing", {}, `${NOTHING}: exit status 1`, ended],
    [
      "white space",
      { stdout: "\n", stderr: " \n" },
      `${NOTHING}: exit status 1`,
      ended,
    ],
    [
      "a log",
      { stderr: 'it is "broken"\n' },
      'netplugin failed: "it is \\"broken\\"\\n": exit status 1',
      ended,
    ],
    [
      "no JSON, and a log",
      { stdout: "{{{", stderr: "log" },
      `${UNPARSED} "{{{": Cannot parse error: unexpected character ` +
      "at line 1, column 2",
      `${ended}; stderr: "log"`,
    ],
    [
      "an empty object",
      { stdout: "{}" },
      `${UNPARSED} "{}": it is not an error object`,
      ended,
    ],
    [
      "a result",
      { stdout: '{"ips":[]}' },
      `${UNPARSED} "{\\"ips\\":[]}": it is not an error object`,
      ended,
    ],
    [
      "null",
      { stdout: "null" },
      `${UNPARSED} "null": Cannot decode error: expected an object, got null`,
      ended,
    ],
    [
      "a code that is not a number",
      { stdout: '{"code":"7","msg":"m"}' },
      `${UNPARSED} "{\\"code\\":\\"7\\",\\"msg\\":\\"m\\"}": ` +
      "Cannot decode error: code: expected a number, got a string",
      ended,
    ],
    [
      "a code below 0",
      { stdout: '{"code":-1}' },
      `${UNPARSED} "{\\"code\\":-1}": ` +
      "Cannot decode error: code: expected at least 0, got -1",
      ended,
    ],
    [
      "a result and an error",
      { stdout: '{}{"code":7,"msg":"m"}' },
      `${UNPARSED} "{}{\\"code\\":7,\\"msg\\":\\"m\\"}": Cannot parse error: ` +
      "unexpected character at line 1, column 3",
      ended,
    ],
    [
      "a deadline",
      { cause: "signal: killed", abort: TIMEOUT },
      `${NOTHING}: signal: killed`,
      "/p was killed after 12 ms: the deadline has passed",
    ],
    [
      "a wish, although there is an error",
      {
        stdout: '{"code":7,"msg":"m"}',
        stderr: "log",
        cause: "signal: killed",
        abort: AbortSignal.abort(),
      },
      `${NOTHING}: signal: killed`,
      '/p was killed after 12 ms: the call was cancelled; stderr: "log"',
    ],
  ];
  await eachRow(t, rows, ([, ending, msg, details]) => {
    const error = failure("/p", { ...SILENT, ...ending });
    assertEquals(error.toObject("1.1.0"), {
      cniVersion: "1.1.0",
      code: 999,
      msg,
      details,
    });
  });
});

Deno.test("failure() quotes the end of a long text", async (t) => {
  const text = `begin${"x".repeat(1024 * 1024)}end`;
  const rows: [name: string, ending: Partial<Failure>, expected: RegExp][] = [
    ["on stdout", { stdout: text }, /"…x+end": Cannot parse error: .+$/],
    ["on stderr", { stderr: text }, /"…x+end": exit status 1$/],
  ];
  await eachRow(t, rows, ([, ending, expected]) => {
    const { message } = failure("/p", { ...SILENT, ...ending });
    assertMatch(message, expected);
    assert(message.length < 5000, `${message.length}`);
  });
  await t.step("in the details", () => {
    const { message, details } = failure("/p", {
      ...SILENT,
      stdout: "[]",
      stderr: text,
    });
    assert(message.length < 200, message);
    assertMatch(details, /; stderr: "…x+end"$/);
  });
});

Deno.test("unstartedFailure() tells why it was not started", async (t) => {
  const rows: [string, AbortSignal, unknown, string, string][] = [
    [
      "a deadline",
      TIMEOUT,
      undefined,
      "context deadline exceeded",
      "the deadline has passed",
    ],
    [
      "a wish",
      AbortSignal.abort(),
      undefined,
      "context canceled",
      "the call was cancelled",
    ],
    [
      "a wish with a reason of its own",
      AbortSignal.abort("enough"),
      undefined,
      "context canceled",
      "the call was cancelled",
    ],
    [
      "a deadline that came while it could not be",
      TIMEOUT,
      new Error("Text file busy"),
      "context deadline exceeded",
      "the deadline has passed: Text file busy",
    ],
  ];
  await eachRow(t, rows, ([, signal, obstacle, cause, why]) => {
    const error = unstartedFailure("/p", signal, obstacle);
    assertEquals(error.toObject("1.1.0"), {
      cniVersion: "1.1.0",
      code: 999,
      msg: `${NOTHING}: ${cause}`,
      details: `/p was not started: ${why}`,
    });
  });
});

Deno.test("startFailure() says why as libc does", async (t) => {
  const rows: [error: unknown, reason: string][] = [
    [
      new Deno.errors.NotFound("Failed to spawn '/p': entity not found"),
      "no such file or directory",
    ],
    [
      new Deno.errors.PermissionDenied(
        "Failed to spawn '/p: (os error 1)': Permission denied (os error 13)",
      ),
      "permission denied",
    ],
    [
      new Error("Failed to spawn '/p': Text file busy (os error 26)"),
      "text file busy",
    ],
    [
      new TypeError("nul byte found in provided data"),
      "nul byte found in provided data",
    ],
  ];
  await eachRow(t, rows, ([error, reason]) => {
    assertEquals(startFailure("/p", error).toObject("1.1.0"), {
      cniVersion: "1.1.0",
      code: 999,
      msg: `${NOTHING}: fork/exec /p: ${reason}`,
    });
  }, ([, reason]) => reason);
});
