import { assertEquals } from "@std/assert";
import { Progress } from "./progress.ts";

/** Does what a program does, and returns what it writes. */
function written(work: (progress: Progress) => void, columns?: number): string {
  let text = "";
  {
    using progress = new Progress((more) => text += more, columns);
    work(progress);
    progress.print(() => text += "done\n");
  }
  return text;
}

Deno.test("Progress changes one line of a terminal", () => {
  const erase = "\r\u001b[K";
  const text = written((progress) => {
    progress.show("one");
    progress.show("a long second");
  }, 10);
  assertEquals(
    text,
    `${erase}one${erase}a long se${erase}done\n${erase}a long se${erase}`,
  );
});

Deno.test("Progress writes plain lines without a terminal", () => {
  const text = written((progress) => {
    progress.show("one");
    progress.show("two");
  });
  assertEquals(text, "one\ntwo\ndone\n");
});

Deno.test("Progress writes nothing if nothing is shown", () => {
  assertEquals(written(() => {}, 80), "done\n");
});
