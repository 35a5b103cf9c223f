/**
 * Throw-away network namespaces, and waiting until the kernel has thrown them
 * away, which it does later and by itself.
 *
 * @module
 */

import { NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";

/** Creates a namespace with its loopback up, as a runtime gives a container. */
export function makeNetns(): NetNs {
  const netns = NetNs.create();
  using rtnl = Rtnl.open(netns.path);
  rtnl.link.set(rtnl.link.get("lo").index, { isUp: true });
  return netns;
}

const POLL_MS = 5, DEADLINE_MS = 60_000;
const clock = new Int32Array(new SharedArrayBuffer(4));

/** Blocks this thread, and so the whole process, for a while. */
export function pause(milliseconds: number): void {
  Atomics.wait(clock, 0, 0, milliseconds);
}

/**
 * Waits until the kernel has taken apart the namespaces that were closed so
 * far: meanwhile it holds locks that every request to any namespace needs.
 *
 * It takes apart those that have gathered, in no known order, and then the
 * next. So when the end of one can be seen, those before are at most under way;
 * when that of another can be, which came only then, they are gone.
 *
 * @throws {Error} If it takes longer than a minute
 */
export function awaitTeardown(): void {
  using host = NetNs.create();
  using rtnl = Rtnl.open(host.path);
  for (const name of ["first", "second"]) {
    {
      using sentinel = NetNs.create();
      rtnl.link.addVeth({ name, peer: { netns: sentinel, name: "end" } });
    }
    awaitEnd(rtnl, name);
  }
}

function awaitEnd(rtnl: Rtnl, link: string): void {
  const deadlineMs = performance.now() + DEADLINE_MS;
  while (rtnl.link.find(link) !== undefined) {
    if (performance.now() > deadlineMs) {
      throw new Error("Cannot see the end of a namespace: it takes too long");
    }
    pause(POLL_MS);
  }
}
