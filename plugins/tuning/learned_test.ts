import { assertEquals } from "@std/assert";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { advertiseRouter } from "../../tests/_harness/router_advertisement.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { TunedLink } from "./testing.ts";

/** Prefixes that the router advertises; the container has an address of the second one. */
const PREFIX = "2001:db8:ffff::/64", SHARED = "2001:db8:eeee::/64";
const LEARNED = "2001:db8:ffff:0:858:aff:fe01:203/64";
const LEARNED_TOO = "2001:db8:eeee:0:858:aff:fe01:203/64";
/** One for ever, without addresses. */
const ON_LINK = "2001:db8:dddd::/64";
/** Of a DHCPv6 server. */
const LEASED = "2001:db8:cccc::7/128";
const OWN = "2001:db8:eeee::5/64", OWN_ROUTE = "2001:db8:aaaa::/64";

/** Lists the global addresses and the routes of the container. */
function listIpv6({ hosts: { sandbox } }: TunedLink): string[] {
  const [link] = ipJson(sandbox, "-6", "address", "show", "dev", "eth0");
  const addresses: Record<string, unknown>[] = link?.addr_info ?? [];
  const routes = ipJson(sandbox, "-6", "route", "show", "dev", "eth0")
    .map(({ dst, protocol }: Record<string, string>) => `${protocol} ${dst}`)
    .filter((text: string) => !text.includes("fe80:"));
  return [
    ...addresses.filter(({ scope }) => scope === "global")
      .map(({ local, prefixlen }) => `${local}/${prefixlen}`).sort(),
    ...new Set<string>(routes.sort()),
  ];
}

/** Has the container learn a router and its prefixes before ADD. */
async function advertise(scene: TunedLink): Promise<void> {
  const { host, sandbox } = scene.hosts;
  for (const [path, name] of [[host.path, "host0"], [sandbox.path, "eth0"]]) {
    using rtnl = Rtnl.open(path ?? "");
    rtnl.link.set(rtnl.link.get(name ?? "").index, { isUp: true });
  }
  const ip = (line: string): void =>
    void runIn(sandbox, "ip", "-6", ...line.split(" "));
  ip(`address add ${OWN} dev eth0 nodad`);
  ip(`address add ${LEASED} dev eth0 nodad valid_lft 1800 preferred_lft 900`);
  ip(`route add ${OWN_ROUTE} via 2001:db8:eeee::1 dev eth0`);
  await eventually("the container has learned the router", () => {
    for (const prefix of [PREFIX, SHARED]) {
      advertiseRouter(host, "host0", { prefix });
    }
    const lifetime = 0xffff_ffff;
    advertiseRouter(host, "host0", {
      ...{ prefix: ON_LINK, lifetime, isOnLinkOnly: true },
    });
    const all = listIpv6(scene);
    return ALL.every((one) => all.includes(one));
  });
}

const LEASED_ROUTE = "kernel 2001:db8:cccc::7";
const KEPT = [
  ...[LEASED, OWN, `boot ${OWN_ROUTE}`],
  ...[LEASED_ROUTE, `kernel ${SHARED}`],
];
const ALL = [
  ...[
    LEASED,
    OWN,
    LEARNED,
    LEARNED_TOO,
    LEASED_ROUTE,
    `boot ${OWN_ROUTE}`,
    "ra default",
  ],
  ...[`kernel ${ON_LINK}`, `kernel ${PREFIX}`, `kernel ${SHARED}`],
];
const without = (...gone: string[]): string[] =>
  ALL.filter((one) => !gone.includes(one));

rootTest(
  "tuning.add() deletes the addresses and routes of a router that it disables",
  async (t) => {
    const rows: [name: string, value: string, left: string[]][] = [
      ["IFNAME.accept_ra", "0", KEPT],
      ["eth0.accept_ra", "0", KEPT],
      ["IFNAME.autoconf", "0", without(LEARNED, LEARNED_TOO)],
      [
        "IFNAME.accept_ra_pinfo",
        "0",
        without(LEARNED, LEARNED_TOO, `kernel ${PREFIX}`, `kernel ${ON_LINK}`),
      ],
      ["IFNAME.accept_ra_defrtr", "0", without("ra default")],
      ["IFNAME.disable_ipv6", "1", []],
      ["IFNAME.accept_ra", "2", ALL],
      // The kernel asks only the interface's own parameter.
      ["all.accept_ra", "0", ALL],
      ["lo.accept_ra", "0", ALL],
    ];
    await eachRow(t, rows, async ([name, value, left]) => {
      using scene = new TunedLink({
        sysctl: { [`net.ipv6.conf.${name}`]: value },
      });
      await advertise(scene);
      await scene.succeed("ADD");
      assertEquals(listIpv6(scene), left.toSorted(compare));
    });
  },
);

/** Addresses come before routes. */
function compare(one: string, other: string): number {
  const isRoute = (text: string): number => Number(text.includes(" "));
  return isRoute(one) - isRoute(other) || (one < other ? -1 : 1);
}
