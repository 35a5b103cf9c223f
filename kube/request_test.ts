import { assertEquals } from "@std/assert";
import { encodeRequest } from "./request.ts";

Deno.test("encodeRequest() sends JSON, if anything", async (t) => {
  await t.step("nothing", () => {
    assertEquals(encodeRequest({ path: "/x", query: { a: 1 } }), {
      method: "GET",
      path: "/x?a=1",
    });
  });
  await t.step("an object", () => {
    assertEquals(
      encodeRequest({ method: "POST", path: "/x", body: { a: 1 } }),
      {
        method: "POST",
        path: "/x",
        body: '{"a":1}',
        contentType: "application/json",
      },
    );
  });
  await t.step("of another type", () => {
    const contentType = "application/merge-patch+json";
    const request = {
      method: "PATCH",
      path: "/x",
      body: null,
      contentType,
    } as const;
    assertEquals(encodeRequest(request), { ...request, body: "null" });
  });
});
