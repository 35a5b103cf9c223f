import { assertEquals } from "@std/assert";
import { type Dns, emptyDns, emptyResult, isEmptyDns } from "./result.ts";
import { testRows } from "../../tests/_harness/table.ts";

Deno.test("emptyResult() has every list, and nothing in it", () => {
  assertEquals(emptyResult(), {
    interfaces: [],
    ips: [],
    routes: [],
    dns: { nameservers: [], domain: "", search: [], options: [] },
  });
});

testRows("isEmptyDns() is true only if nothing at all is set", [
  ["nothing", {}, true],
  ["nameservers", { nameservers: ["1.2.3.4"] }, false],
  ["domain", { domain: "example.org" }, false],
  ["search", { search: ["example.org"] }, false],
  ["options", { options: ["ndots:5"] }, false],
], ([, settings, expected]: [string, Partial<Dns>, boolean]) => {
  assertEquals(isEmptyDns({ ...emptyDns(), ...settings }), expected);
});
