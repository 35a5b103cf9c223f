import { assertEquals, assertStrictEquals } from "@std/assert";
import { CniError, describeError, ErrorCode, toCniError } from "./error.ts";
import { eachRow } from "../tests/_harness/table.ts";

/** An error that is its own cause, at one remove. */
function makeCycle(): Error {
  const inner = new Error("inner");
  const outer = new Error("outer", { cause: inner });
  inner.cause = outer;
  return outer;
}

const tryLater = new CniError(ErrorCode.TryAgainLater, "try later", {
  details: "busy",
});

Deno.test("CniError.toObject() prints what the specification asks for", async (t) => {
  await t.step("without details", () => {
    const error = new CniError(ErrorCode.InvalidNetworkConfig, "no subnet");
    assertEquals(
      JSON.stringify(error.toObject("1.1.0")),
      `{"cniVersion":"1.1.0","code":7,"msg":"no subnet"}`,
    );
  });
  await t.step("with details and the texts of the causes", () => {
    const error = new CniError(100, "Cannot add", {
      details: "ours",
      cause: new Error("first", { cause: tryLater }),
    });
    assertEquals(error.toObject("0.4.0"), {
      cniVersion: "0.4.0",
      code: 100,
      msg: "Cannot add",
      details: "ours: first: try later: busy",
    });
  });
  await t.step("a code that could not be read as one is 999", () => {
    for (const code of [-1, 0.5, NaN, Infinity]) {
      assertEquals(new CniError(code, "a").toObject("1.1.0").code, 999);
    }
  });
  await t.step("there is always a message", () => {
    assertEquals(new CniError(7, "").toObject("1.1.0").msg, "unknown error");
  });
});

Deno.test("CniError.toString() is message and details, as Go prints an error", () => {
  assertEquals(String(new CniError(7, "no subnet")), "no subnet");
  assertEquals(String(tryLater), "try later; busy");
});

/** An error as Deno words it. */
function io(path: string): Error {
  return new Error(`No such file or directory (os error 2): open '${path}'`);
}

Deno.test("describeError() joins what a chain of errors says", async (t) => {
  const rows: [string, unknown, string][] = [
    ["one error", new Error("a"), "a"],
    ["causes", new Error("a", { cause: new Error("b") }), "a: b"],
    ["a cause that is not an error", new Error("a", { cause: 5 }), "a: 5"],
    ["details", tryLater, "try later: busy"],
    ["a system call", io("/x"), 'No such file or directory: "/x"'],
    [
      "a system call on a path that is known",
      new Error('Cannot read "/x"', { cause: io("/x") }),
      'Cannot read "/x": No such file or directory',
    ],
    [
      "a system call on another path",
      new CniError(5, 'Cannot read "y"', { cause: io("/x") }),
      'Cannot read "y": No such file or directory: "/x"',
    ],
    ["no message", new TypeError(), "TypeError"],
    ["a text", "plain", "plain"],
    ["null", null, "null"],
    ["a symbol", Symbol("s"), "Symbol(s)"],
    [
      "an object that cannot be made a text",
      Object.create(null),
      "an object that is not an error",
    ],
    ["a cycle", makeCycle(), "outer: inner"],
    [
      "several errors with a message",
      new AggregateError([new Error("a"), tryLater], "Cannot clean up"),
      "Cannot clean up: a; try later: busy",
    ],
    [
      "several errors without one",
      new AggregateError([new Error("a"), new Error("b")]),
      "a; b",
    ],
  ];
  await eachRow(
    t,
    rows,
    ([, error, expected]) => assertEquals(describeError(error), expected),
  );
});

Deno.test("toCniError() returns a CniError as it is", () => {
  assertStrictEquals(toCniError(tryLater), tryLater);
});

Deno.test("toCniError() keeps the code that is nearest, and every text", async (t) => {
  const rows: [string, unknown, [number, string, string]][] = [
    ["a plain error is internal", new Error("potato"), [999, "potato", ""]],
    ["a text is internal", "potato", [999, "potato", ""]],
    ["nothing at all", undefined, [999, "unknown error", ""]],
    ["no message", new RangeError(), [999, "RangeError", ""]],
    [
      "the causes become details",
      new Error("a", { cause: new Error("b", { cause: "c" }) }),
      [999, "a", "b: c"],
    ],
    [
      "a wrapped CniError keeps code and message",
      new Error("delegate failed", { cause: tryLater }),
      [11, "try later", "delegate failed: busy"],
    ],
    [
      "what caused the wrapped one comes last",
      new Error("a", {
        cause: new CniError(5, "b", { cause: new Error("c") }),
      }),
      [5, "b", "a: c"],
    ],
    ["a cycle ends", makeCycle(), [999, "outer", "inner"]],
    [
      "of several errors the first code that is telling",
      new AggregateError([new Error("a"), tryLater], "Cannot clean up"),
      [11, "Cannot clean up", "a; try later: busy"],
    ],
    [
      "several errors as a cause",
      new Error("Cannot delete", { cause: new AggregateError([tryLater]) }),
      [11, "Cannot delete", "try later: busy"],
    ],
    [
      "several plain errors",
      new AggregateError([new Error("a"), new Error("b")]),
      [999, "a; b", ""],
    ],
  ];
  await eachRow(t, rows, ([, thrown, expected]) => {
    const { code, message, details } = toCniError(thrown);
    assertEquals([code, message, details], expected);
  });
});
