/** Leases that a container keeps when it is started again. */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { CniError } from "../../base/error.ts";
import { createLog } from "../../base/log/log.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { leaseEach, type RetainedLeases } from "./lease_each.ts";
import type { AddressRequest } from "./allocator.ts";
import type { LeaseOwner } from "./kept/kept_addresses.ts";
import { type Retention, UNLIMITED } from "./kept/retention.ts";
import { resolveRangeSet } from "./range.ts";
import { LeaseStore } from "./store.ts";

const OWNER = { containerId: "one", ifName: "eth0" };
/** When the leases were written, in ms since 1970. */
const OLD = 1_600_000_000_000;

/** Builds a request for any address of a subnet, or for a certain address. */
function request(subnet: string, requested?: string): AddressRequest {
  const set = resolveRangeSet([{ subnet: Cidr.parse(subnet) }], 0);
  return { set, requested: requested ? Ip.parse(requested) : undefined };
}

const V4 = request("10.1.2.0/24"), V6 = request("fd00::/64");

/** The leases of a container that was started again, and a tool to lease. */
class Fixture implements Disposable {
  readonly dataDir = Deno.makeTempDirSync({ prefix: "leases-" });

  static async create(): Promise<Fixture> {
    const fixture = new Fixture();
    await fixture.lease([V4, V6]);
    for (const ip of ["10.1.2.2", "fd00::2"]) fixture.age(ip);
    return fixture;
  }

  pathOf(ip: string): string {
    return join(this.dataDir, "net", ip);
  }

  age(ip: string): void {
    Deno.utimeSync(this.pathOf(ip), new Date(OLD), new Date(OLD));
  }

  writtenMs(ip: string): number | undefined {
    return Deno.statSync(this.pathOf(ip)).mtime?.getTime();
  }

  async run<T>(
    use: (store: LeaseStore) => T,
    retention: Retention = UNLIMITED,
  ): Promise<T> {
    using store = await LeaseStore.open(
      this.dataDir,
      "net",
      undefined,
      retention,
    );
    return use(store);
  }

  lease(
    requests: readonly AddressRequest[],
    retained: RetainedLeases = {},
    owner: LeaseOwner = OWNER,
    retention?: Retention,
  ): Promise<string[]> {
    const log = createLog({}, (line) => assert(false, line));
    return this.run(
      (store) =>
        leaseEach(requests, owner, store, log, retained).map(({ ip }) =>
          `${ip}`
        ),
      retention,
    );
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.dataDir, { recursive: true });
  }
}

Deno.test("leaseEach() gives the leases of a restarted container to one ADD only", async () => {
  using fixture = await Fixture.create();
  // Both ADDs search before the first of them leases.
  const restarted = await fixture.run((store) => store.datedLeasesOf(OWNER));
  const wanted = ["10.1.2.2", "fd00::2"];
  assertEquals(await fixture.lease([V4, V6], { restarted }), wanted);
  const error = await fixture.lease([V4, V6], { restarted })
    .then(() => undefined, (error) => error);
  assert(error instanceof CniError, "the second ADD succeeded");
  assertEquals(error.code, 999);
  const left = await fixture.run((store) => store.leasesOf(OWNER));
  assertEquals(left.map(({ ip }) => `${ip}`).sort(), wanted);
});

Deno.test("leaseEach() does not renew leases that it cannot take over", async () => {
  using fixture = await Fixture.create();
  await fixture.lease(
    [request("fd00::/64", "fd00::9")],
    {},
    { ...OWNER, containerId: "other" },
  );
  const restarted = await fixture.run((store) => store.datedLeasesOf(OWNER));
  const requests = [V4, request("fd00::/64", "fd00::9")];
  const error = await fixture.lease(requests, { restarted })
    .then(() => undefined, (error) => error);
  assertEquals(error?.code, 11);
  assertEquals(fixture.writtenMs("10.1.2.2"), OLD);
});

Deno.test("leaseEach() records the new sandbox of a pod that keeps its ID", async () => {
  using fixture = await Fixture.create();
  const name = { namespace: "test", pod: "web", ifName: "eth0" };
  const retention = { ...UNLIMITED, name };
  const restarted = await fixture.run((store) => {
    const leases = store.datedLeasesOf(OWNER);
    store.kept.record({ ...OWNER, netns: "/run/netns/ended" }, leases);
    return leases;
  }, retention);
  // It exists as long as this process.
  const owner = { ...OWNER, netns: `/proc/${Deno.pid}/ns/net` };
  await fixture.lease([V4, V6], { restarted }, owner, retention);
  await fixture.run((store) => {
    const next = { ...OWNER, containerId: "two" };
    const error = assertThrows(() => store.kept.claim(next), CniError);
    assertEquals(error.code, 11);
  }, retention);
});
