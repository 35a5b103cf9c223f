/**
 * A real udevd on a temporary host, with Debian's rules and a separate `/run`.
 * It gives links MACs that depend on their names, unless a MAC was set.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import { inNetns } from "../../ffi/netns.ts";
import { UDEV_ROOT } from "../../scripts/setup/debian_packages.ts";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  type Needs,
  needsRoot,
} from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

const UDEVADM = `${UDEV_ROOT}/bin/udevadm`;

/** Skips what needs udevd. */
export const needsUdev: Needs = allOf(
  needsRoot,
  ignoreUnless(isExecutable(UDEVADM), "needs Debian's udev in build/udev"),
);

/** Longest start, in ms. */
const START_MS = 30_000;

/** Starts it among files of its own, under the name that it needs. */
const START = `
set -e
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/etc /run/udev
echo 0123456789abcdef0123456789abcdef > /run/etc/machine-id
mount -t overlay -o "lowerdir=/run/etc:/etc" overlay /etc
mount -t overlay -o "lowerdir=$0/lib:/usr/lib" overlay /usr/lib
ln -s "$0/bin/udevadm" /run/systemd-udevd
exec /run/systemd-udevd
`;

/** A running udevd. */
export class Udevd implements Disposable {
  readonly #process: Deno.ChildProcess;

  /** Starts it on a host, and waits until it hears of new links. */
  constructor(host: NetNs) {
    const args = [
      ...["--mount", "--propagation=private", "sh", "-c"],
      ...[START, UDEV_ROOT],
    ];
    const output = { stdout: "null", stderr: "null" } as const;
    this.#process = inNetns(
      host,
      () => new Deno.Command("unshare", { args, ...output }).spawn(),
    );
    const startMs = performance.now();
    const turn = new Int32Array(new SharedArrayBuffer(4));
    while (!this.#isReady()) {
      if (performance.now() > startMs + START_MS) {
        throw new Error("udevd does not start");
      }
      Atomics.wait(turn, 0, 0, 2);
    }
  }

  #isReady(): boolean {
    try {
      Deno.lstatSync(`/proc/${this.#process.pid}/root/run/udev/control`);
      return true;
    } catch {
      return false;
    }
  }

  /** Keeps it from its work, as a busy node does. */
  pause(): void {
    this.#process.kill("SIGSTOP");
  }

  /** Lets it work, and waits until it has done so about the links that are there. */
  settle(): void {
    this.#process.kill("SIGCONT");
    const args = [
      ...["--target", `${this.#process.pid}`, "--mount", "--root", "--net"],
      ...[UDEVADM, "settle", "--timeout=30"],
    ];
    const { success, stderr } = new Deno.Command("nsenter", { args })
      .outputSync();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  }

  /** Ends it. */
  [Symbol.dispose](): void {
    this.#process.kill("SIGCONT");
    this.#process.kill("SIGTERM");
  }
}

/**
 * Runs a test on hosts with udevd, which does its work after each call: what it
 * does earlier, a call would see.
 */
export async function withUdev(
  test: () => void | Promise<void>,
): Promise<void> {
  const before = [TestHosts.createHost, TestHosts.dispatch] as const;
  const running = new Set<Udevd>();
  const [createHost, dispatchBefore] = before;
  TestHosts.createHost = (stack) => {
    const host = createHost(stack);
    const udevd = stack.use(new Udevd(host));
    running.add(udevd);
    stack.defer(() => running.delete(udevd));
    return host;
  };
  TestHosts.dispatch = async (plugin, input) => {
    for (const udevd of running) udevd.pause();
    // As a process of its own.
    const { startedAt = new Date() } = input;
    const output = await dispatchBefore(plugin, { ...input, startedAt });
    for (const udevd of running) udevd.settle();
    return output;
  };
  try {
    await test();
  } finally {
    [TestHosts.createHost, TestHosts.dispatch] = before;
  }
}
