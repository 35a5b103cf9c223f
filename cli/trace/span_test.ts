import { assertEquals, assertMatch } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { formatTraceparent, parseTraceparent, randomId } from "./span.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", SPAN = "00f067aa0ba902b7";

testRows<[text: string, isSampled: boolean]>("parseTraceparent() reads", [
  [`00-${TRACE}-${SPAN}-01`, true],
  [`00-${TRACE}-${SPAN}-00`, false],
  [`00-${TRACE}-${SPAN}-03`, true],
  // A later version may have more.
  [`cc-${TRACE}-${SPAN}-01-what-comes`, true],
], ([text, isSampled]) => {
  assertEquals(parseTraceparent(text, "a=b"), {
    traceId: TRACE,
    spanId: SPAN,
    isSampled,
    state: "a=b",
  });
});

testRows("parseTraceparent() refuses malformed values", [
  "",
  "00-1-2-03",
  `ff-${TRACE}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}-01-more`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${"0".repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${"0".repeat(16)}-01`,
], (text) => assertEquals(parseTraceparent(text), undefined));

Deno.test("parseTraceparent() reads the output of formatTraceparent() and randomId()", () => {
  const context = {
    traceId: randomId(16),
    spanId: randomId(8),
    isSampled: true,
    state: "",
  };
  assertEquals(parseTraceparent(formatTraceparent(context)), context);
  assertMatch(formatTraceparent(context), /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
});
