/** The question whether another machine has an address. */

import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { type Checking, findUnusedAddresses } from "./conflict_check.ts";
import { Cidr } from "../../../net/cidr.ts";
import { listPacketSockets } from "../../../tests/_harness/conflict_cases.ts";

for (const [what, state] of [["a", "up"], ["no", "down"]] as const) {
  rootTest(
    `an interrupted conflict check fails: ${what} carrier`,
    async () => {
      using hosts = TestHosts.create();
      const { sandbox: netns } = hosts;
      const ip = (...args: string[]): void => void runIn(netns, "ip", ...args);
      ip("link", "add", "v0", "type", "veth", "peer", "name", "v1");
      ip("link", "set", "v1", state);
      using sandbox = Rtnl.open(netns.path);
      const warnings: string[] = [];
      const call = {
        config: {},
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

rootTest("the conflict check reuses its sockets", async () => {
  using hosts = TestHosts.create();
  const { sandbox: netns } = hosts;
  const neighbour = hosts.addNetns();
  runIn(
    netns,
    "sh",
    "-ec",
    `ip link add v0 type veth peer name v1 netns ${neighbour.path}`,
  );
  const squatters = ["192.0.2.1/24", "192.0.2.2/24", "192.0.2.3/24"];
  const script = squatters.map((one) => `ip address add ${one} dev v1`);
  runIn(neighbour, "sh", "-ec", [...script, "ip link set v1 up"].join("\n"));
  using sandbox = Rtnl.open(netns.path);
  const addresses = [...squatters, "192.0.2.4/24"].values();
  const nextLease = (): Checking["lease"] => ({
    ips: [addresses.next().value ?? "", "2001:db8::4/64"]
      .map((text) => ({ address: Cidr.parse(text) })),
    routes: [],
    interfaces: [],
    dns: {},
  } as unknown as Checking["lease"]);
  const sockets: string[][] = [], conflicts: unknown[] = [];
  const call = {
    config: { ipam: { type: "host-local" } },
    stdin: new TextEncoder().encode("{}"),
    network: "lan",
    args: { ifName: "v0" },
    log: { warn: (): void => {} },
    context: {
      onConflict: (one: Record<string, unknown>): void =>
        void conflicts.push([one["network"], one["ifName"], `${one["ip"]}`]),
    },
    delegate: (): object => ({
      add(): Promise<unknown> {
        sockets.push(listPacketSockets(netns));
        return Promise.resolve(nextLease());
      },
    }),
  } as unknown as Checking["call"];
  const link = sandbox.link.get("v0") as Checking["link"];
  {
    await using checked = await findUnusedAddresses({
      call,
      sandbox,
      link,
      lease: nextLease(),
    });
    const [first] = checked.lease.ips;
    assertEquals([checked.isChecked, `${first?.address}`], [
      true,
      "192.0.2.4/24",
    ]);
  }
  const [first = []] = sockets;
  assertEquals([first.length, sockets], [2, squatters.map(() => first)]);
  assertEquals(listPacketSockets(netns), []);
  assertEquals(
    conflicts,
    squatters.map((one) => ["lan", "v0", one.split("/")[0]]),
  );
});
