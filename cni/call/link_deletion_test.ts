import { assertEquals, assertRejects } from "@std/assert";
import {
  type DeletableLink,
  type DeleteLinks,
  ListDeletion,
  unbatched,
} from "./link_deletion.ts";

/** Makes links whose requests are recorded. */
function record(
  failing?: string,
): [link: (name: string) => DeletableLink, requests: string[][]] {
  const requests: string[][] = [];
  const deleteTogether: DeleteLinks = (links) => {
    const names = links.map(({ name }) => name);
    requests.push(names);
    if (names.some((name) => name === failing)) throw new Error("no");
  };
  return [
    (name) => ({ index: 1, name, netns: "/netns", deleteTogether }),
    requests,
  ];
}

Deno.test("unbatched deletes all links at once", async () => {
  const [link, requests] = record("c");
  await unbatched.later([link("a")]);
  await unbatched.now([link("b")]);
  assertEquals(requests, [["a"], ["b"]]);
  await assertRejects(
    () => unbatched.later([link("c")]),
    Error,
    "no",
  );
});

Deno.test("ListDeletion.now() includes what was left, once", async () => {
  const [link, requests] = record();
  const list = new ListDeletion();
  await list.later([link("a"), link("b")]);
  assertEquals(requests, []);
  await list.now([link("c")]);
  await list.now([link("d")]);
  assertEquals(requests, [["c", "a", "b"], ["d"]]);
});

Deno.test("ListDeletion.finish() deletes what is left once, even if it fails", async () => {
  const [link, requests] = record("b");
  const list = new ListDeletion();
  await list.finish();
  await list.later([link("a")]);
  await list.later([link("b")]);
  await assertRejects(() => list.finish(), Error, "no");
  await list.finish();
  assertEquals(requests, [["a", "b"]]);
});

Deno.test("ListDeletion leaves nothing to its outer list", async () => {
  const [link, requests] = record();
  const outer = new ListDeletion(), inner = new ListDeletion(outer);
  await outer.later([link("a")]);
  await inner.later([link("b")]);
  await inner.finish();
  assertEquals(requests, [["b", "a"]]);
  await outer.finish();
  assertEquals(requests.length, 1);
});
