import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { requireRoot, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { Rtnl } from "./mod.ts";
import {
  routerOptionsIn,
  routerStateOf,
  RouterWatch,
} from "./router_discovery.ts";

/** A `struct nduseroptmsg`: 8 bytes of options on link 2, of a router advertisement. */
const HEADER = "0a000800" + "02000000" + "8600" + "0000" + "00000000";
const OPTION = "1901000000000e10";
/** The address of the router, an attribute that follows. */
const SOURCE = "14000100" + "fe80000000000000" + "0000000000000001";

testRows<[what: string, hex: string, options: string[]]>(
  "routerOptionsIn() returns options of routers on the link",
  [
    ["an option", HEADER + OPTION + SOURCE, [OPTION]],
    ["another link", HEADER.replace("02", "03") + OPTION, []],
    ["a neighbour", HEADER.replace("86", "88") + OPTION, []],
    ["a part of one", HEADER + OPTION.slice(2), []],
    ["a part of the header", HEADER.slice(2), []],
    ["nothing", "", []],
  ],
  ([, hex, options]) => {
    const body = Uint8Array.fromHex(hex);
    const found = routerOptionsIn({ type: 68, body }, 2);
    assertEquals(found.map((bytes) => bytes.toHex()), options);
    assertEquals(routerOptionsIn({ type: 16, body }, 2), []);
  },
);

Deno.test(requireRoot("a link without a router has no state"), () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.sandbox.path);
  const { index } = rtnl.link.get("lo");
  using watch = RouterWatch.open(hosts.sandbox, index);
  assertEquals(watch.take(), { options: [], deleted: [] });
  assertEquals(routerStateOf(rtnl.socket, index), {
    isAdvertised: false,
    isManaged: false,
  });
});

rootTest("an address that was taken away is not another host's", () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.sandbox.path);
  const { index } = rtnl.link.get("lo");
  runIn(hosts.sandbox, "ip", "link", "set", "lo", "up");
  using watch = RouterWatch.open(hosts.sandbox, index);
  for (const verb of ["add", "del"]) {
    const address = ["2001:db8::1/64", "dev", "lo"];
    runIn(hosts.sandbox, "ip", "address", verb, ...address);
  }
  assertEquals(watch.take().deleted, []);
});
