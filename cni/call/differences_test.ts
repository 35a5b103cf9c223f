import { assertEquals, assertThrows } from "@std/assert";
import { Differences, formatDetails, listDifferences } from "./differences.ts";
import { CniError } from "../../base/error.ts";

/** Collects what checks throw that find these. */
async function collect(...errors: Error[]): Promise<Differences> {
  const differences = new Differences();
  for (const error of errors) {
    await differences.collect(() => {
      throw error;
    });
  }
  return differences;
}

Deno.test("Differences throws nothing if all is well", async () => {
  const differences = new Differences();
  assertEquals(await differences.collect(() => 1), 1);
  differences.throwAny();
});

Deno.test("Differences throws the only difference as it is", async () => {
  const error = new CniError(7, "a", { details: "b" });
  const differences = await collect(error);
  const thrown = assertThrows(() => differences.throwAny());
  assertEquals(thrown === error, true);
  assertEquals(listDifferences(error), ["a; b"]);
});

Deno.test("Differences throws all in one error", async () => {
  const inner = await collect(
    new CniError(999, "b1"),
    new CniError(11, "b2", { details: formatDetails(["b3"]) }),
  );
  const differences = await collect(
    new CniError(50, "a", { details: "why" }),
    new Error("outer", { cause: new CniError(3, "c") }),
  );
  await differences.collect(() => inner.throwAny());
  const error = assertThrows(() => differences.throwAny(), CniError, "a");
  assertEquals([error.code, error.details], [
    50,
    "why\nalso: c; outer\nalso: b1\nalso: b2\nalso: b3",
  ]);
  assertEquals(listDifferences(error), [
    "a; why",
    "c; outer",
    "b1",
    "b2",
    "b3",
  ]);
});
