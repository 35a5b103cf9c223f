import { assertEquals } from "@std/assert";
import project from "../../package.json" with { type: "json" };
import { testRows } from "../../tests/_harness/table.ts";
import { addressOf, SITE } from "./finding.ts";

testRows(
  "a finding's address is on the published site, or relative to the site",
  [
    [undefined, "findings.html#cni0601"],
    ["https://cni.example", "https://cni.example/findings.html#cni0601"],
    ["https://a.example/cni/", "https://a.example/cni/findings.html#cni0601"],
  ] as const,
  ([site, wanted]) =>
    assertEquals(addressOf("findings", "cni0601", site), wanted),
  ([site]) => site ?? "not published",
);

Deno.test("findings link to the homepage of package.json", () => {
  const { homepage } = { homepage: undefined, ...project };
  assertEquals(SITE, homepage);
});
