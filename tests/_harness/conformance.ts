/**
 * The behaviours that other programs rely on, one test for each: the rows of
 * the conformance lists. `deno task test` counts them by their names.
 *
 * @module
 */

import { allOf, type Needs } from "../../testing/capabilities.ts";
import { TRACE } from "../../cni/call/variables.ts";
import { registry } from "../../plugins/registry.ts";
import { byDaemon } from "./by_daemon.ts";
import { isRootless } from "./rootless.ts";
import { needsUdev, withUdev } from "./udevd.ts";

/** The test of a row; throws if the behaviour differs. */
export type Row = (t: Deno.TestContext) => void | Promise<void>;

/** Areas whose rows are also run by a node daemon, one on each line. */
const BY_DAEMON = new RegExp(`^(?:${
  [
    "bandwidth",
    "bridge",
    "chain",
    "requirements on (?:host-local|ptp)(?! by)",
    "dhcp",
    "dummy",
    "firewall(?! traffic)",
    "flannel",
    "multus(?! install)",
    "host-device",
    "ipvlan",
    "macvlan",
    "portmap(?! iptables)",
    "ptp",
    "sbr",
    "tap",
    "tuning(?! allowlist)",
    "vlan",
    "vrf(?! tables)",
    "whereabouts node slices",
  ].join("|")
})\\b`);

/**
 * Areas whose rows are also run on a node with udevd, at night: of plugins that
 * make links.
 */
const WITH_UDEV =
  /^(?:requirements on multus|(?:requirements on )?(?:bandwidth|bridge|chain|flannel|ipvlan|macvlan|ptp|tap|vlan|vrf)\b(?! by))/;

/** Rows of those that the gate runs: for the newest version. */
const WITH_UDEV_CORE = /^conformance (?:bridge|ptp): .*, 1\.1\.0$/;

/** Whether the rows for the night are run. */
const IS_ALL = Deno.env.get("CNI_CONFORM") === "1";

/** Part of the names of rows that run elsewhere than on a node as such. */
const PLACE = isRootless ? " rootless" : "";

/** Whether the rows are run in one way only, as before a commit. */
const IS_ONE_WAY = isRootless || Deno.env.get("CNI_TEST_ONE_WAY") === "1";

/** Has a row's calls recorded in the file that CNI_TRACE names. */
function traced(fn: Row): Row {
  const path = Deno.env.get(TRACE);
  if (!path) return fn;
  return async (t) => {
    const { startTracing } = await import("../../cli/trace/start.ts");
    using _trace = startTracing(path, registry);
    await fn(t);
  };
}

const ROOT = new URL("../..", import.meta.url).href;

/** Has a failure say how to run its test alone. */
function locatable(fn: Row, name: string): Row {
  const file = new Error().stack?.split(ROOT)
    .map((frame) => /^[\w/]+_test\.ts/.exec(frame)?.[0]).find(Boolean);
  return async (t) => {
    try {
      await fn(t);
    } catch (error) {
      if (error instanceof Error) {
        const way = isRootless ? " --rootless" : "";
        error.message += `\nAlone: deno task test${way} ${file} --filter ` +
          JSON.stringify(name);
      }
      throw error;
    }
  };
}

/**
 * Registers a test for each row, named `conformance AREA: ROW`, and for some
 * areas another one that calls plugins by a node daemon.
 *
 * @param area The topic of the rows, such as `skel` or `host-local`
 * @param rows By name, the behaviour in a few words. A number before it, such as
 *   BR-5, is a short name to cite and to filter by
 * @param needs From `ignoreUnless`, for rows that cannot run everywhere
 */
export function conformance(
  area: string,
  rows: Readonly<Record<string, Row>>,
  { ignore, suffix }: Needs = { ignore: false, suffix: "" },
): void {
  for (const [row, test] of Object.entries(rows)) {
    const name = `conformance ${area}${PLACE}: ${row}`;
    const fn = locatable(traced(test), name);
    Deno.test({ name: `${name}${suffix}`, ignore, fn });
    if (IS_ONE_WAY) continue;
    // The daemon always waits for its next caller, and udevd ends later.
    const sanitize = { sanitizeOps: false, sanitizeResources: false };
    if (BY_DAEMON.test(area)) {
      Deno.test({
        name: `conformance ${area} by daemon: ${row}${suffix}`,
        ignore,
        fn: (t) => byDaemon(() => fn(t)),
        ...sanitize,
      });
    }
    if (IS_ALL ? WITH_UDEV.test(area) : WITH_UDEV_CORE.test(name)) {
      const both = allOf({ ignore, suffix }, needsUdev);
      Deno.test({
        name: `conformance ${area} with udev: ${row}${both.suffix}`,
        ignore: both.ignore,
        fn: (t) => withUdev(() => fn(t)),
        ...sanitize,
      });
    }
  }
}
