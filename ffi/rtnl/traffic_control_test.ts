import { assertEquals } from "@std/assert";
import { handleOf, Parent } from "./traffic_control.ts";

Deno.test("handleOf() joins the numbers that tc shows with a colon", () => {
  assertEquals(handleOf(1), 0x1_0000);
  assertEquals(handleOf(1, 0x30), 0x1_0030);
  assertEquals(handleOf(0xffff, 0xfff1), Parent.Ingress);
  assertEquals(handleOf(0xffff, 0xfff2), Parent.ClsactIngress);
});
