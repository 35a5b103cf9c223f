import { assertEquals } from "@std/assert";
import {
  describeOwner,
  findIp,
  formatContainer,
  formatOwner,
} from "./lease.ts";

Deno.test("formatOwner() writes what the Go plugin writes", () => {
  const ifName = "eth0";
  assertEquals(formatOwner({ containerId: "dummy", ifName }), "dummy\r\neth0");
  assertEquals(formatOwner({ containerId: " d ", ifName }), "d\r\neth0");
  assertEquals(formatContainer(" dummy\n"), "dummy");
});

Deno.test("describeOwner() names what a lease names", () => {
  assertEquals(
    describeOwner("dummy\r\neth0"),
    'container "dummy", interface "eth0"',
  );
  assertEquals(describeOwner("dummy"), 'container "dummy"');
});

Deno.test("findIp() finds an address, or none", () => {
  assertEquals(findIp("10.1.2.2")?.toString(), "10.1.2.2");
  assertEquals(findIp("lock"), undefined);
});
