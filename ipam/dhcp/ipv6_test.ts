/** The plugin dhcp with IPv6, its daemon, and Debian's DHCPv6 server. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { Background } from "../../tests/_harness/background.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { needsKind } from "../../tests/_harness/on_master.ts";
import { needsDhcpd, needsRadvd } from "../../tests/_harness/router_net.ts";
import { needsDnsmasq, RoutedScene } from "./testing.ts";

const needs = allOf(needsDhcpd, needsRadvd);
const LEARNED = { "cni.dev/learned": true };

/** Returns the configuration of a server. */
function serverOf(
  { network = 1, last = "1ff", valid = 3600, preferred = 1800, more = "" }: {
    network?: number;
    last?: string;
    valid?: number;
    preferred?: number;
    more?: string;
  } = {},
): string {
  const prefix = `2001:db8:${network}::`;
  return `default-lease-time ${valid}; preferred-lifetime ${preferred};
    option dhcp6.name-servers 2001:db8::53;
    option dhcp6.domain-search "example.test";
    ${more}
    subnet6 ${prefix}/64 { range6 ${prefix}100 ${prefix}${last}; }
  `;
}

for (const type of ["bridge", "macvlan", "ipvlan", "vlan"] as const) {
  const kind = type === "bridge" ? [] : [needsKind(type)];
  rootTest(
    `dhcp leases an IPv6 address for ${type} until DEL`,
    allOf(needs, ...kind),
    async () => {
      await using scene = await RoutedScene.start(type);
      const { ipam, daemon } = scene;
      const server = await scene.serve(serverOf());
      const prevResult = await scene.succeed("ADD", ipam);
      const [{ local = "", prefixlen, dynamic } = {}, ...others] = scene
        .addresses();
      assertEquals([prefixlen, dynamic, others], [128, true, []]);
      const { gateway } = scene;
      const [{ interface: position, ...ip }] = prevResult.ips;
      assertEquals(ip, { address: `${local}/128`, gateway, ...LEARNED });
      assertEquals(prevResult.interfaces[position].name, "eth0");
      assertEquals(prevResult.routes, [
        { dst: "::/0", gw: gateway, ...LEARNED },
      ]);
      assertEquals(prevResult.dns, {
        nameservers: ["2001:db8::53"],
        search: ["example.test"],
      });
      assertEquals(daemon.leases.map(({ address }) => address), [local]);
      await scene.succeed("CHECK", ipam, { prevResult });
      await scene.succeed("STATUS", ipam);
      await scene.succeed("DEL", ipam, { prevResult });
      await server.says("Release message");
      assertEquals(daemon.leases, []);
    },
  );
}

rootTest(
  "dhcp adds no IPv6 default route if defaultRoute is false",
  needs,
  async () => {
    await using scene = await RoutedScene.start();
    await scene.serve(serverOf());
    const ipam = { ...scene.ipam, defaultRoute: false };
    const { ips, routes } = await scene.succeed("ADD", ipam);
    assertEquals([ips.length, ips[0].gateway, routes], [
      1,
      undefined,
      undefined,
    ]);
    const { sandbox } = scene.hosts;
    assertEquals(ipJson(sandbox, "-6", "route", "show", "default"), []);
    // The prefix is still on the link.
    assert(
      ipJson(sandbox, "-6", "route", "show", "2001:db8:1::/64").length === 1,
    );
  },
);

rootTest("dhcp renews an IPv6 lease with its server", needs, async () => {
  await using scene = await RoutedScene.start();
  const { ipam, daemon } = scene;
  const more = "option dhcp-renewal-time 1; option dhcp-rebinding-time 20;";
  const server = await scene.serve(serverOf({ more }));
  const prevResult = await scene.succeed("ADD", ipam);
  await daemon.says("msg=renewed", 2);
  await server.says("Renew message");
  await scene.succeed("CHECK", ipam, { prevResult });
});

rootTest(
  "dhcp requests the same address from a DHCPv6 server that lost its leases",
  needs,
  async () => {
    await using scene = await RoutedScene.start();
    const { ipam, daemon } = scene;
    const more = `server-duid LL ethernet 02:00:5e:00:53:01;
      option dhcp-renewal-time 5; option dhcp-rebinding-time 200;`;
    const server = await scene.serve(serverOf({ more }));
    await scene.succeed("ADD", ipam);
    const before = scene.locals;
    await server.stop();
    await Deno.remove(`${scene.hosts.directory}/dhcpd.leases`);
    const forgetful = await scene.serve(serverOf({ more }));
    await daemon.says("msg=renewed");
    await forgetful.says("Renew message");
    await forgetful.says("Request message");
    assert(!daemon.log.includes("The lease expired"), daemon.log);
    assertEquals(scene.locals, before);
  },
);

rootTest(
  "dhcp keeps an IPv6 lease while its daemon is restarted",
  needs,
  async () => {
    await using scene = await RoutedScene.start();
    const { ipam, daemon } = scene;
    const server = await scene.serve(serverOf());
    const prevResult = await scene.succeed("ADD", ipam);
    const before = scene.locals;
    await daemon.stop();
    await daemon.start();
    await daemon.says("msg=confirmed");
    await server.says("Rebind message");
    assertEquals(scene.locals, before);
    await scene.succeed("CHECK", ipam, { prevResult });
    await daemon.stop();
    const { exitCode, stderr } = await scene.hosts
      .run("dhcp", "DEL", scene.config(ipam));
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, "No DHCP daemon");
    await daemon.start();
    await server.says("Release message");
    await eventually("the lease is gone", () => daemon.leases.length === 0);
    assertEquals(scene.locals, []);
  },
);

rootTest(
  "dhcp keeps an IPv6 lease if only one of two servers refuses it",
  allOf(needs, needsDnsmasq),
  async () => {
    await using scene = await RoutedScene.start();
    const { ipam, daemon, hosts: { host } } = scene;
    const server = await scene.serve(serverOf());
    await scene.succeed("ADD", ipam);
    const before = scene.locals;
    await daemon.stop();
    runIn(
      host,
      ...["ip", "address", "add", "2001:db8:2::1/64", "dev", "br0"] as const,
    );
    const other = new Background(host, "dnsmasq", [
      ...["--keep-in-foreground", "--conf-file=/dev/null", "--user=root"],
      ...["--port=0", "--pid-file=", "--log-facility=-", "--log-dhcp"],
      ...["--interface=br0", "--bind-interfaces", "--dhcp-authoritative"],
      ...["--leasefile-ro", "--dhcp-range=2001:db8:2::100,2001:db8:2::1ff,1h"],
    ]);
    await using stack = new AsyncDisposableStack();
    stack.defer(() => other.stop());
    await other.says("DHCPv6, ");
    Deno.kill(server.pid, "SIGSTOP");
    await daemon.start();
    await other.says("DHCPREPLY");
    Deno.kill(server.pid, "SIGCONT");
    await daemon.says("msg=confirmed");
    assert(!daemon.log.includes("The lease expired"), daemon.log);
    assertEquals(scene.locals, before);
  },
);

rootTest(
  "dhcp removes an IPv6 address whose lease expired, and leases again",
  needs,
  async () => {
    await using scene = await RoutedScene.start("bridge", { timeoutMs: 2000 });
    const { ipam, daemon } = scene;
    const short = serverOf({ valid: 6, preferred: 4 });
    const server = await scene.serve(short);
    const prevResult = await scene.succeed("ADD", ipam);
    const before = scene.locals;
    await server.stop();
    await daemon.says("The lease expired");
    await eventually("it has no address", () => scene.locals.length === 0);
    assertFailure(
      await scene.run("CHECK", ipam, { prevResult }),
      999,
      "has no valid lease",
    );
    await scene.serve(serverOf());
    await daemon.says("leased again");
    assertEquals(scene.locals, before);
    await scene.succeed("CHECK", ipam, { prevResult });
  },
);

rootTest("dhcp follows a DHCPv6 server that renumbers", needs, async () => {
  await using scene = await RoutedScene.start("bridge", { timeoutMs: 2000 });
  const { ipam, daemon } = scene;
  const server = await scene.serve(serverOf({ valid: 8, preferred: 6 }));
  const prevResult = await scene.succeed("ADD", ipam);
  await server.stop();
  scene.addRouterAddress("2001:db8:2::1/64");
  runIn(
    scene.router,
    ...["ip", "address", "del", "2001:db8:1::1/64", "dev", "wire"] as const,
  );
  await scene.serve(serverOf({ network: 2 }));
  await daemon.says("the address changed");
  await scene.gets("2001:db8:2:");
  await eventually(
    "the old address is gone",
    () => scene.locals.every((local) => local.startsWith("2001:db8:2:")),
  );
  await scene.succeed("CHECK", ipam, { prevResult });
});

rootTest(
  "dhcp declines an IPv6 address that another host uses",
  needs,
  async () => {
    await using scene = await RoutedScene.start();
    const { ipam, daemon } = scene;
    const server = await scene.serve(serverOf());
    // The server offers a client the same address again.
    await scene.succeed("ADD", ipam);
    const [taken = ""] = scene.locals;
    await scene.succeed("DEL", ipam);
    scene.addRouterAddress(`${taken}/64`);
    await scene.succeed("ADD", ipam);
    await server.says("Decline message");
    assertStringIncludes(daemon.log, `another host has ${taken}`);
    assertEquals([scene.locals.length, scene.locals.includes(taken)], [
      1,
      false,
    ]);
  },
);

rootTest(
  "dhcp assigns an IPv6 address again that is removed while it is checked",
  needs,
  async () => {
    await using scene = await RoutedScene.start();
    const { ipam, daemon, hosts: { sandbox } } = scene;
    const server = await scene.serve(serverOf());
    const adding = scene.succeed("ADD", ipam);
    await eventually("it has an address", () => {
      const [link] = ipJson(
        sandbox,
        "-6",
        "address",
        "show",
        "scope",
        "global",
      );
      return link?.addr_info?.some(
        ({ tentative }: { tentative?: boolean }) => tentative === true,
      );
    });
    const [{ local = "" } = {}] = scene.addresses();
    runIn(sandbox, "ip", "-6", "address", "flush", "scope", "global");
    await adding;
    assertEquals(scene.locals, [local]);
    assert(!server.log.includes("Decline message"), server.log);
    assert(!daemon.log.includes("another host"), daemon.log);
  },
);

rootTest(
  "dhcp adds a leased IPv6 address again after it was removed",
  needs,
  async () => {
    await using scene = await RoutedScene.start();
    const { ipam, daemon, hosts: { sandbox } } = scene;
    await scene.serve(serverOf());
    await scene.succeed("ADD", ipam);
    const before = scene.locals;
    runIn(sandbox, "ip", "-6", "address", "flush", "scope", "global");
    const config = scene.config(ipam);
    const output = await scene.hosts.run("dhcp", "ADD", config);
    assertEquals(output.exitCode, 0);
    const [{ local, valid_life_time: valid } = { valid_life_time: 0 }] = scene
      .addresses();
    assertEquals([local], before);
    assert(valid > 0 && valid < 3600, `${valid}`);
    await daemon.says("restored a missing address");
  },
);

rootTest(
  "dhcp leases addresses of both families",
  allOf(needs, needsDnsmasq),
  async () => {
    await using scene = await RoutedScene.start();
    const { daemon } = scene;
    const ipam = { ...scene.ipam, family: "both" };
    runIn(
      scene.router,
      ...["ip", "address", "add", "10.9.0.1/24", "dev", "wire"] as const,
    );
    const dnsmasq = scene.spawn(
      "dnsmasq",
      ...["--keep-in-foreground", "--conf-file=/dev/null", "--user=root"],
      ...["--port=0", "--pid-file=", "--log-facility=-", "--log-dhcp"],
      ...["--interface=wire", "--bind-interfaces", "--no-ping"],
      ...["--dhcp-authoritative", "--leasefile-ro"],
      "--dhcp-range=10.9.0.10,10.9.0.99,255.255.255.0,1h",
    );
    await dnsmasq.says("DHCP, ");
    const server = await scene.serve(serverOf());
    const prevResult = await scene.succeed("ADD", ipam);
    const { ips } = prevResult;
    assertEquals(
      ips.map(({ address }: { address: string }) => address.slice(0, 6)),
      ["10.9.0", "2001:d"],
    );
    assertEquals(daemon.leases.length, 2);
    await scene.succeed("CHECK", ipam, { prevResult });
    await scene.succeed("DEL", ipam, { prevResult });
    await server.says("Release message");
    await dnsmasq.says("DHCPRELEASE");
    assertEquals(daemon.leases, []);
    // One of the two servers does not answer.
    await server.stop();
    await daemon.stop();
    await daemon.start({ timeoutMs: 3000, resendTimeoutMs: 4000 });
    assertFailure(
      await scene.run("ADD", ipam),
      11,
      "no time is left for another attempt",
    );
    assertEquals(daemon.leases, []);
    assert(ipJson(scene.hosts.sandbox, "link").length === 1);
  },
);

rootTest("dhcp refuses IPv4 options without IPv4", async () => {
  await using scene = new RoutedScene("bridge");
  const ipam = {
    ...scene.ipam,
    provide: [{ option: "host-name", value: "a" }],
  };
  const output = await scene.run("ADD", ipam);
  assertFailure(output, 7, 'Cannot use IPv4 options with "family": 6');
  assertStringIncludes(output.json.details, "the key is ipam.provide");
});
