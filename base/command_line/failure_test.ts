import { assertEquals } from "@std/assert";
import { CniError } from "../error.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { formatFailureText, isDenied, toFailureDocument } from "./failure.ts";

Deno.test("formatFailureText() shows the action and the reason", async (t) => {
  const refused = new CniError(7, "no such key", { details: "mtu" });
  const rows: [name: string, error: unknown, text: string][] = [
    ["a plugin's error", refused, "no such key; mtu"],
    [
      "a plugin of a list",
      new Error('plugin type="ptp" failed (add)', { cause: refused }),
      'plugin type="ptp" failed (add): no such key; mtu',
    ],
    [
      "several failures",
      new AggregateError([refused, new Error("b")], "2 failures"),
      "no such key; mtu\nb",
    ],
    ["no message", new TypeError(), "TypeError"],
    ["a string", "text", "text"],
  ];
  await eachRow(
    t,
    rows,
    ([, error, text]) => assertEquals(formatFailureText(error), text),
  );
});

Deno.test("isDenied() also understands a plugin's text", async (t) => {
  const rows: [details: string, denied: boolean][] = [
    ["setns: EPERM", true],
    ["Permission denied", true],
    ["No such file or directory", false],
  ];
  await eachRow(t, rows, ([details, denied]) => {
    assertEquals(isDenied(new CniError(5, "Cannot", { details })), denied);
  });
});

Deno.test("toFailureDocument() keeps the plugin's code", () => {
  const cause = new CniError(11, "later", { details: "busy" });
  assertEquals(
    toFailureDocument(new Error("plugin failed", { cause })),
    { code: 11, msg: "later", details: "plugin failed: busy" },
  );
  assertEquals(toFailureDocument(new Error("a")), { code: 999, msg: "a" });
});
