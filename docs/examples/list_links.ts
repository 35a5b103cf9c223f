/**
 * Lists the links of a network namespace with their addresses, by netlink:
 *
 *     deno task deno run -A docs/examples/list_links.ts [NAMESPACE]
 *
 * @module
 */

import { Rtnl } from "@cni/plugins";

const [netns = "/proc/self/ns/net"] = Deno.args;
using rtnl = Rtnl.open(netns);
for (const { index, name, mtu, isUp } of rtnl.link.list()) {
  const addresses = rtnl.address.list({ ifindex: index })
    .map(({ address }) => address);
  console.log(
    `${index}: ${name}`,
    isUp ? "up" : "down",
    `mtu ${mtu}`,
    addresses,
  );
}
