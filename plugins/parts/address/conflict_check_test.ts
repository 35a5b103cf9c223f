/** The question whether another machine has an address, of a call that ends early. */

import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { type Checking, findUnusedAddresses } from "./conflict_check.ts";
import { Cidr } from "../../../net/cidr.ts";

for (const [what, state] of [["a", "up"], ["no", "down"]] as const) {
  rootTest(
    `a call that ends does not use addresses unasked: ${what} carrier`,
    async () => {
      using hosts = TestHosts.create();
      const { sandbox: netns } = hosts;
      const ip = (...args: string[]): void => void runIn(netns, "ip", ...args);
      ip("link", "add", "v0", "type", "veth", "peer", "name", "v1");
      ip("link", "set", "v1", state);
      using sandbox = Rtnl.open(netns.path);
      const warnings: string[] = [];
      const call = {
        signal: AbortSignal.abort(),
        log: { warn: (text: string) => warnings.push(text) },
      } as unknown as Checking["call"];
      const lease = {
        ips: [{ address: Cidr.parse("192.0.2.1/24") }],
        routes: [],
        interfaces: [],
      } as unknown as Checking["lease"];
      const link = sandbox.link.get("v0") as Checking["link"];
      const error = await assertRejects(
        () => findUnusedAddresses({ call, sandbox, link, lease }),
        CniError,
        'Cannot check whether other machines use the addresses of "v0"',
      );
      assertEquals([error.code, warnings], [11, []]);
    },
  );
}
