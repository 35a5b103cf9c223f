import { assertEquals, assertRejects } from "@std/assert";
import {
  type DeleteLinks,
  type LinkToDelete,
  ListDeletion,
  unbatched,
} from "./link_deletion.ts";

function link(name: string): LinkToDelete {
  return { index: 1, name, netns: "/netns" };
}

/** Records the links of each request. */
function record(failing?: string): [DeleteLinks, string[][]] {
  const requests: string[][] = [];
  const deleteLinks: DeleteLinks = (links) => {
    const names = links.map(({ name }) => name);
    requests.push(names);
    if (names.some((name) => name === failing)) throw new Error("no");
  };
  return [deleteLinks, requests];
}

Deno.test("unbatched deletes all links at once", async () => {
  const [deleteLinks, requests] = record("c");
  await unbatched.later([link("a")], deleteLinks);
  await unbatched.now([link("b")], deleteLinks);
  assertEquals(requests, [["a"], ["b"]]);
  await assertRejects(
    () => unbatched.later([link("c")], deleteLinks),
    Error,
    "no",
  );
});

Deno.test("ListDeletion.now() includes what was left, once", async () => {
  const [deleteLinks, requests] = record();
  const list = new ListDeletion();
  await list.later([link("a"), link("b")], deleteLinks);
  assertEquals(requests, []);
  await list.now([link("c")], deleteLinks);
  await list.now([link("d")], deleteLinks);
  assertEquals(requests, [["c", "a", "b"], ["d"]]);
});

Deno.test("ListDeletion.finish() deletes what is left once, even if it fails", async () => {
  const [deleteLinks, requests] = record("b");
  const list = new ListDeletion();
  await list.finish();
  await list.later([link("a")], deleteLinks);
  await list.later([link("b")], deleteLinks);
  await assertRejects(() => list.finish(), Error, "no");
  await list.finish();
  assertEquals(requests, [["a", "b"]]);
});

Deno.test("ListDeletion leaves nothing to its outer list", async () => {
  const [deleteLinks, requests] = record();
  const outer = new ListDeletion(), inner = new ListDeletion(outer);
  await outer.later([link("a")], deleteLinks);
  await inner.later([link("b")], deleteLinks);
  await inner.finish();
  assertEquals(requests, [["b", "a"]]);
  await outer.finish();
  assertEquals(requests.length, 1);
});
