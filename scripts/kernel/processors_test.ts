import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { listProcessors, parseProcessors } from "./processors.ts";

testRows<[list: string, processors: readonly number[]]>(
  "parseProcessors() reads ranges and single ones",
  [
    ["0", [0]],
    ["0-1", [0, 1]],
    ["1,4-6,9", [1, 4, 5, 6, 9]],
    ["", []],
  ],
  ([list, processors]) => assertEquals(parseProcessors(list), processors),
);

Deno.test("listProcessors() lists as many as this process may use", () => {
  // Fewer if a control group limits their time.
  const { hardwareConcurrency } = navigator;
  assertEquals(listProcessors().length >= hardwareConcurrency, true);
});
