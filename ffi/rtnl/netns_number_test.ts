import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { Rtnl } from "./mod.ts";
import { numberOfNetns } from "./netns_number.ts";

rootTest("numberOfNetns() is the number in the links of a namespace", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using inside = Rtnl.open(sandbox.path);
  assertEquals(numberOfNetns(inside, host), undefined);
  const pair = `link add up0 type veth peer eth0 netns ${sandbox.path}`;
  runIn(host, "ip", ...pair.split(" "));
  const [link] = ipJson(sandbox, "link", "show", "eth0");
  assert(link.link_netnsid !== undefined);
  assertEquals(numberOfNetns(inside, host), link.link_netnsid);
  assertEquals(numberOfNetns(inside, hosts.addNetns()), undefined);
});
