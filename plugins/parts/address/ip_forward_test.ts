import { assertEquals } from "@std/assert";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { readSysctl } from "../../../ffi/sysctl.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { advertiseRouter } from "../../../tests/_harness/router_advertisement.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** The uplink, with a dot as in the name of a VLAN's, and another link. */
const UPLINK = "up0.5", OTHER = "lan0";

/** Connects the links of a host with a router. */
function connectRouter({ host }: TestHosts, router: NetNs): void {
  using own = Rtnl.open(host.path);
  using other = Rtnl.open(router.path);
  for (const name of [UPLINK, OTHER]) {
    const peer = { netns: router, name };
    const { index, linkIndex = 0 } = own.link.addVeth({ name, peer });
    own.link.set(index, { isUp: true });
    other.link.set(linkIndex, { isUp: true });
  }
}

function hasDefaultRoute(host: NetNs): boolean {
  return ipJson(host, "-6", "route", "show", "default")
    .some(({ dev, protocol }: Record<string, string>) =>
      dev === UPLINK && protocol === "ra"
    );
}

/** Sends an advertisement until the host has an address of its prefix. */
async function advertise(
  router: NetNs,
  host: NetNs,
  prefix: string,
): Promise<void> {
  await eventually(`the host has an address of ${prefix}`, () => {
    advertiseRouter(router, UPLINK, { prefix: `${prefix}::/64` });
    const [link] = ipJson(host, "-6", "address", "show", "dev", UPLINK);
    return link?.addr_info.some(({ local }: Record<string, string>) =>
      local?.startsWith(`${prefix}:`)
    ) === true;
  });
}

rootTest("forwarding keeps the host's advertised router", async (t) => {
  await eachRow(t, ["bridge", "ptp"], async (type) => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    const router = hosts.addNetns();
    connectRouter(hosts, router);
    await advertise(router, host, "2001:db8:f1");
    assertEquals(hasDefaultRoute(host), true);
    const config = {
      cniVersion: "1.1.0",
      name: "net1",
      type,
      isGateway: true,
      ipam: hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
    };
    assertSuccess(await hosts.run(type, "ADD", config));
    assertEquals(hasDefaultRoute(host), true);
    // What comes later is accepted, too.
    await advertise(router, host, "2001:db8:f2");
    const accepts = [UPLINK, OTHER].map((name) =>
      inNetns(host, () => readSysctl(`net/ipv6/conf/${name}/accept_ra`))
    );
    assertEquals(accepts, ["2", "1"]);
  });
});
