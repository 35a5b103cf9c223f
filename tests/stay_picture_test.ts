/** The picture of docs/addresses-that-stay.md is what is drawn; `CNI_DRAW=1` writes it. */

import { assertEquals } from "@std/assert";
import { drawStay } from "./_harness/stay_picture.ts";

const PATH = new URL("../docs/images/addresses-that-stay.svg", import.meta.url);

Deno.test("docs: the picture of addresses that stay is up to date", () => {
  if (Deno.env.get("CNI_DRAW")) Deno.writeTextFileSync(PATH, drawStay());
  // The formatter breaks lines.
  const plain = (text: string): string => text.replace(/\s+/g, "");
  assertEquals(plain(Deno.readTextFileSync(PATH)), plain(drawStay()));
});
