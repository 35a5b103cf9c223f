import { assertEquals } from "@std/assert";
import { inspect } from "node:util";
import { Cidr } from "./cidr.ts";
import { Ip } from "./ip.ts";
import { Mac } from "./mac.ts";

Deno.test("Deno and Node print addresses as text", () => {
  const values = {
    ip: Ip.parse("fd00::1"),
    cidr: [Cidr.parse("10.22.0.2/24")],
    mac: Mac.parse("02:00:5e:00:53:01"),
  };
  const want =
    "{ ip: fd00::1, cidr: [ 10.22.0.2/24 ], mac: 02:00:5e:00:53:01 }";
  assertEquals(Deno.inspect(values, { breakLength: 100 }), want);
  assertEquals(inspect(values, { breakLength: 100 }), want);
});
