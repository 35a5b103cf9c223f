import { assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { listXfrmPolicies } from "./xfrm.ts";

const ADDED = [
  "src 10.1.0.0/16 dst 0.0.0.0/0 dir fwd priority 7 action block",
  "src fd00:1::/48 dst 2001:db8::1/128 dir out priority 8 action allow",
  "src 0.0.0.0/0 dst 192.0.2.0/24 proto tcp dport 22 dir in action block",
  "src 0.0.0.0/0 dst 0.0.0.0/0 dir out mark 5 action block",
];

rootTest("listXfrmPolicies() reads what ip has added", () => {
  using hosts = TestHosts.create();
  assertEquals(listXfrmPolicies(hosts.host.path), []);
  for (const one of ADDED) {
    runIn(hosts.host, "sh", "-ec", `ip xfrm policy add ${one}`);
  }
  const found = listXfrmPolicies(hosts.host.path).map((one) =>
    `src ${one.source} dst ${one.destination} dir ${one.direction} ` +
    `priority ${one.priority} ${one.isBlock ? "block" : "allow"}` +
    (one.isNarrow ? " narrow" : "")
  );
  assertEquals(found.sort(), [
    "src 0.0.0.0/0 dst 0.0.0.0/0 dir out priority 0 block narrow",
    "src 0.0.0.0/0 dst 192.0.2.0/24 dir in priority 0 block narrow",
    "src 10.1.0.0/16 dst 0.0.0.0/0 dir fwd priority 7 block",
    "src fd00:1::/48 dst 2001:db8::1/128 dir out priority 8 allow",
  ]);
});
