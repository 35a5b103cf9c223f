import { assertEquals } from "@std/assert";
import { addressFamily } from "./constants.ts";

Deno.test("addressFamily() returns AF_INET and AF_INET6", () => {
  assertEquals([addressFamily(4), addressFamily(6)], [2, 10]);
});
