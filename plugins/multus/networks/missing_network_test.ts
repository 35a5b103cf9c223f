import { assertEquals, assertInstanceOf } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { inContext, MissingNetworkError } from "./missing_network.ts";

Deno.test("inContext() keeps code, details and what the event shall say", () => {
  const missing = inContext(
    "b",
    inContext("a", new MissingNetworkError(11, "m", "event")),
  );
  assertInstanceOf(missing, MissingNetworkError);
  assertEquals([missing.code, missing.message, missing.eventMessage], [
    11,
    "b: a: m",
    "event",
  ]);
  const other = inContext("a", new CniError(7, "m", { details: "d" }));
  assertEquals([other.code, other.message, other.details], [7, "a: m", "d"]);
  const unknown = inContext("a", new TypeError("m"));
  assertEquals([unknown.code, unknown.message], [999, "a: m"]);
});
