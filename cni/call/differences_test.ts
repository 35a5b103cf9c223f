import { assertEquals, assertThrows } from "@std/assert";
import {
  type Difference,
  differenceError,
  Differences,
} from "./differences.ts";
import { listDifferences } from "./list_differences.ts";
import { multusFailure } from "../../plugins/multus/model/failure.ts";
import { failure } from "../invoke/failure.ts";
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
  assertEquals(listDifferences(error), [{ msg: "a; b" }]);
});

Deno.test("Differences throws all in one error", async () => {
  const inner = await collect(
    new CniError(999, "b1"),
    differenceError(11, [{ msg: "b2" }, { msg: "b3" }]),
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
  assertEquals(listDifferences(error).map(({ msg }) => msg), [
    "a; why",
    "c; outer",
    "b1",
    "b2",
    "b3",
  ]);
});

Deno.test("objects stay with their differences, through a process and multus", async () => {
  const netns = "/run/netns/one", link = "eth0";
  const down: Difference = {
    msg: "down",
    expected: { kind: "link", netns, link, isUp: true },
  };
  const missing: Difference = {
    msg: "missing",
    expected: { kind: "address", netns, link, address: "10.1.0.2/24" },
  };
  const differences = await collect(
    new CniError(50, "a", { details: "why" }),
    differenceError(999, [down, { msg: "words only" }, missing]),
    new CniError(999, "strange", { differences: [{ kind: "link", link: 7 }] }),
  );
  const thrown = assertThrows(() => differences.throwAny(), CniError);
  const stdout = JSON.stringify(thrown.toObject("1.1.0"));
  const end = { stderr: "", cause: "exit status 1", elapsedMs: 1 };
  const received = failure("/opt/cni/bin/ptp", { ...end, stdout });
  assertEquals(listDifferences(multusFailure(received)), [
    { msg: "Multus: a; why" },
    down,
    { msg: "words only" },
    missing,
    { msg: "strange" },
  ]);
  assertEquals(new CniError(999, "plain").toObject("1.1.0"), {
    cniVersion: "1.1.0",
    code: 999,
    msg: "plain",
  });
});
