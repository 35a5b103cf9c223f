import { assertEquals, assertThrows } from "@std/assert";
import { KubeError } from "./kube_error.ts";
import { apiPath, withQuery } from "./request.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

Deno.test("apiPath() joins names that cannot change the path", async (t) => {
  await t.step("plain", () => {
    assertEquals(apiPath("/api/v1", "pods", "a-b.c"), "/api/v1/pods/a-b.c");
  });
  await t.step("with characters that a path must not contain", () => {
    assertEquals(
      apiPath("/api/v1", "a b?c#d:ä"),
      "/api/v1/a%20b%3Fc%23d%3A%C3%A4",
    );
  });
  await eachRow(t, ["", ".", "..", "a/b", "/", "%2e%2e", "%"], (name) => {
    const error = assertThrows(() => apiPath("/api/v1", name), KubeError);
    assertEquals(error.status, 400);
  }, (name) => `refused: "${name}"`);
});

testRows(
  "withQuery() omits absent values",
  [
    [{}, "/x"],
    [{ a: undefined, b: "" }, "/x"],
    [{ a: "1", b: undefined, limit: 0 }, "/x?a=1&limit=0"],
    [{ s: "a=b,c=d&e" }, "/x?s=a%3Db%2Cc%3Dd%26e"],
  ],
  ([query, expected]: [Record<string, string | number | undefined>, string]) =>
    assertEquals(withQuery("/x", query), expected),
  ([, expected]) => expected,
);
