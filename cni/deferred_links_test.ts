import { assertEquals, assertRejects } from "@std/assert";
import { DeferredLinks } from "./deferred_links.ts";
import { describeError } from "./error.ts";

/** Defers links whose removal is written down. */
function deferAll(
  links: DeferredLinks,
  names: readonly string[],
  failing: readonly string[] = [],
): string[] {
  const removed: string[] = [];
  names.forEach((name, index) =>
    links.defer({
      index,
      name,
      remove: () => {
        if (failing.includes(name)) throw new Error("no");
        removed.push(name);
      },
    })
  );
  return removed;
}

Deno.test("DeferredLinks.takeAll() hands links over once", async () => {
  const links = new DeferredLinks();
  const removed = deferAll(links, ["a", "b"]);
  assertEquals(links.takeAll().map(({ name }) => name), ["a", "b"]);
  assertEquals(links.takeAll(), []);
  await links.removeAll();
  assertEquals(removed, []);
});

Deno.test("DeferredLinks.removeAll() removes each once, whatever fails", async () => {
  const links = new DeferredLinks();
  const removed = deferAll(links, ["a", "b", "c"], ["a"]);
  const error = await assertRejects(() => links.removeAll(), Error);
  assertEquals(describeError(error), 'Cannot delete "a": no');
  assertEquals(removed, ["b", "c"]);
  await links.removeAll();
  assertEquals(removed, ["b", "c"]);
});
