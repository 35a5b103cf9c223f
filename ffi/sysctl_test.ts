import { assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { inNetns } from "./netns.ts";
import { Rtnl } from "./rtnl/mod.ts";
import {
  ensureSysctl,
  isReadableSysctl,
  listSysctls,
  readSysctl,
  writeSysctl,
} from "./sysctl.ts";

/** A parameter that even root cannot write. */
const READ_ONLY = "kernel/ostype";

Deno.test("readSysctl() returns the value without the line's end", () => {
  assertEquals(readSysctl(READ_ONLY), "Linux");
});

Deno.test("readSysctl() and writeSysctl() throw if the parameter does not exist", () => {
  const { NotFound } = Deno.errors;
  assertThrows(() => readSysctl("net/none"), NotFound);
  assertThrows(() => writeSysctl("net/none", "1"), NotFound);
  assertThrows(() => ensureSysctl("net/none", "1"), NotFound);
});

Deno.test("isReadableSysctl() knows parameters that can only be written", () => {
  assertEquals(isReadableSysctl(READ_ONLY), true);
  assertEquals(isReadableSysctl("net/ipv4/route/flush"), false);
  const { NotFound } = Deno.errors;
  assertThrows(() => isReadableSysctl("net/none"), NotFound);
});

Deno.test("ensureSysctl() writes only another value", () => {
  ensureSysctl(READ_ONLY, "Linux");
  assertThrows(() => ensureSysctl(READ_ONLY, "Minix"));
});

rootTest("sysctls belong to the namespace, and names may contain dots", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  rtnl.link.addVeth({
    name: "eth0.100",
    peer: { netns: sandbox, name: "eth0" },
  });
  const key = "net/ipv4/conf/eth0.100/forwarding";
  const read = (): string => runIn(host, "cat", `/proc/sys/${key}`);
  inNetns(host, () => writeSysctl(key, "1"));
  assertEquals(read(), "1\n");
  inNetns(host, () => ensureSysctl(key, "0"));
  assertEquals(read(), "0\n");
  assertEquals(inNetns(host, () => readSysctl(key)), "0");
  const links = inNetns(host, () => listSysctls("net/ipv4/conf"));
  assertEquals(links.sort(), ["all", "default", "eth0.100", "lo"]);
  assertThrows(
    () => inNetns(sandbox, () => readSysctl(key)),
    Deno.errors.NotFound,
  );
});
