import { assertEquals, assertMatch } from "@std/assert";
import {
  claimStatus,
  putIpamClaim,
  putRunningPod,
  withClaim,
} from "../testing/claims.ts";
import { runCni } from "../../../tests/_harness/tool_call.ts";
import { WhereaboutsScene } from "../testing/scene.ts";

const RANGE = { range: "10.0.0.0/24" };
const POOL = "10.0.0.0-24";

function release(
  { kubeconfig }: WhereaboutsScene,
  ...args: string[]
): ReturnType<typeof runCni> {
  return runCni("release", "--kubeconfig", kubeconfig, ...args);
}

Deno.test("cni release gives the claim's next pod another address", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  await scene.add(RANGE, withClaim("vm", { pod: "vm" }));
  putRunningPod(scene, "vm");
  const used = await release(scene, "test/vm", "--yes");
  assertEquals(used.exitCode, 1);
  assertMatch(used.stderr, /pod "test\/vm" uses IPAMClaim "test\/vm"/);
  scene.api.removePod("test", "vm");
  // Without a terminal nobody can answer.
  const asked = await release(scene, "test/vm");
  assertMatch(asked.stderr, /use --yes, or a terminal/);
  assertEquals(scene.reservations(), ["10.0.0.1"]);
  const { stdout, exitCode } = await release(scene, "test/vm", "--yes");
  assertEquals(exitCode, 0);
  assertMatch(stdout, /released 10\.0\.0\.1 of IPAMClaim test\/vm/);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
  assertEquals(claimStatus(scene, "vm").ips, undefined);
  await scene.add(RANGE, { pod: "other" });
  assertEquals(await scene.add(RANGE, withClaim("vm", { pod: "vm" })), [
    "10.0.0.2/24",
  ]);
});

Deno.test("cni release knows claims that are gone, and other objects", async () => {
  await using scene = await WhereaboutsScene.start();
  putIpamClaim(scene, "vm");
  await scene.add(RANGE, withClaim("vm", { pod: "vm" }));
  scene.api.remove("ipamclaims", "test", "vm");
  assertEquals((await release(scene, "test/vm", "--yes")).exitCode, 0);
  assertEquals(scene.allocations(POOL), {});
  assertEquals(scene.reservations(), []);
  const { stderr, exitCode } = await release(scene, "test/vm", "--yes");
  assertEquals(exitCode, 0);
  assertMatch(stderr, /IPAMClaim test\/vm has no addresses/);
  assertMatch(
    (await release(scene, "a/b/c", "--yes")).stderr,
    /is not NAMESPACE/,
  );
});
