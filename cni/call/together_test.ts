import { assertEquals, assertRejects } from "@std/assert";
import { alone, ListWork, type Work } from "./together.ts";

/** Records the items of each run. */
function recordWork(failing?: string): [Work<string>, string[][]] {
  const runs: string[][] = [];
  const work = (items: readonly string[]): void => {
    runs.push([...items]);
    if (items.some((item) => item === failing)) throw new Error("no");
  };
  return [work, runs];
}

Deno.test("alone does everything at once", async () => {
  const [work, runs] = recordWork("c");
  await alone.later(work, ["a"]);
  await alone.now(work, ["b"]);
  assertEquals(runs, [["a"], ["b"]]);
  await assertRejects(() => alone.later(work, ["c"]), Error, "no");
});

Deno.test("ListWork.now() includes what was left, once and by kind", async () => {
  const [work, runs] = recordWork(), [other, others] = recordWork();
  const list = new ListWork();
  await list.later(work, ["a", "b"]);
  await list.later(other, ["x"]);
  assertEquals(runs, []);
  await list.now(work, ["c"]);
  await list.now(work, ["d"]);
  assertEquals(runs, [["c", "a", "b"], ["d"]]);
  assertEquals(others, []);
});

Deno.test("ListWork.finish() does each kind of work once, whatever fails", async () => {
  const [work, runs] = recordWork("b"), [other, others] = recordWork();
  const list = new ListWork();
  await list.later(work, ["a"]);
  await list.later(work, ["b"]);
  await list.later(other, ["x"]);
  await assertRejects(() => list.finish(), Error, "no");
  await list.finish();
  assertEquals([runs, others], [[["a", "b"]], [["x"]]]);
});

Deno.test("ListWork leaves nothing to its outer list", async () => {
  const [work, runs] = recordWork();
  const outer = new ListWork(), inner = new ListWork(outer);
  await outer.later(work, ["a"]);
  await inner.later(work, ["b"]);
  await inner.finish();
  assertEquals(runs, [["b", "a"]]);
  await outer.finish();
  assertEquals(runs.length, 1);
});
