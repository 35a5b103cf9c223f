/**
 * Waits for changes of links, addresses and routes in several namespaces.
 *
 * @module
 */

import { deadline, JoinedSignal } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import { CURRENT_NETNS } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Sandbox } from "./live.ts";

/** Source: include/uapi/linux/rtnetlink.h `RTNLGRP_*`: links, addresses and routes. */
const GROUPS = [1, 5, 7, 9, 11];
/** How often to look for notifications; changes in between are shown together. */
const INTERVAL_MS = 200;

/**
 * Runs `draw` now, and after changes, until the signal is aborted.
 *
 * @param choose Lists the namespaces to watch, besides the node's own
 */
export async function watchNetworks(
  choose: () => readonly Sandbox[],
  draw: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    using stack = new DisposableStack();
    const paths = [CURRENT_NETNS, ...choose().map(({ netns }) => netns)];
    const open = paths.flatMap((path) => {
      const rtnl = ifPossible(() => Rtnl.open(path));
      if (rtnl === undefined) return [];
      stack.use(rtnl);
      for (const group of GROUPS) rtnl.socket.subscribe(group);
      return [rtnl];
    });
    // Subscribed first: a change while drawing is not missed.
    await draw();
    do await pause(signal); while (
      !signal.aborted && !open.some(({ socket }) => socket.takeNotices())
    );
  }
}

/** Waits, or until the signal is aborted. */
async function pause(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using end = new JoinedSignal(deadline(INTERVAL_MS), signal);
  end.signal.addEventListener("abort", () => resolve(), { once: true });
  if (!end.signal.aborted) await promise;
}
