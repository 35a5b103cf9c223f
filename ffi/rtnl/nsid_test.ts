import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { Rtnl } from "./mod.ts";
import { findNsid } from "./nsid.ts";

rootTest("findNsid() is the nsid in the links of a namespace", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using inside = Rtnl.open(sandbox.path);
  assertEquals(findNsid(inside, host), undefined);
  const pair = `link add up0 type veth peer eth0 netns ${sandbox.path}`;
  runIn(host, "ip", ...pair.split(" "));
  const [link] = ipJson(sandbox, "link", "show", "eth0");
  assert(link.link_netnsid !== undefined);
  assertEquals(findNsid(inside, host), link.link_netnsid);
  assertEquals(findNsid(inside, hosts.addNetns()), undefined);
});
