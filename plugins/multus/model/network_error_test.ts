import { assertEquals, assertInstanceOf } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { inContext, NetworkError } from "./network_error.ts";

const EVENT = { reason: "NoNetworkFound", message: "event" } as const;

Deno.test("inContext() keeps code, details and event message", () => {
  const missing = inContext(
    "b",
    inContext("a", new NetworkError(11, "m", EVENT)),
  );
  assertInstanceOf(missing, NetworkError);
  assertEquals([missing.code, missing.message, missing.event], [
    11,
    "b: a: m",
    EVENT,
  ]);
  const other = inContext("a", new CniError(7, "m", { details: "d" }));
  assertEquals([other.code, other.message, other.details], [7, "a: m", "d"]);
  const unknown = inContext("a", new TypeError("m"));
  assertEquals([unknown.code, unknown.message], [999, "a: m"]);
});
