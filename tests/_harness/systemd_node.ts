/**
 * A machine that a real systemd runs, in a container of systemd-nspawn: Debian,
 * with a network of its own that leads nowhere.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { pause } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  needsRoot,
} from "../../testing/capabilities.ts";
import { eventually } from "./eventually.ts";
import { BIN } from "./executables.ts";

/** The root, which is made once, and which containers do not change. */
const ROOT = decodeURIComponent(
  new URL("../../build/systemd", import.meta.url).pathname,
);

const SUITE = "bookworm";
const PACKAGES = ["systemd", "systemd-sysv", "dbus", "iproute2", "nftables"];

/** Where the executables are in the container. */
const BIN_INSIDE = "/mnt";

/** Time that the container has to shut down, in ms. */
const SHUTDOWN_MS = 20_000;

/**
 * Skips what needs systemd in a container. Makes the root, if debootstrap and a
 * mirror are there.
 */
export const needsSystemd: Needs = allOf(
  needsRoot,
  ignoreUnless(hasCommand("systemd-nspawn"), "needs systemd-container"),
  ignoreUnless(
    !hasCommand("systemd-nspawn") || BIN === "" || ensureRoot(),
    "needs debootstrap and a mirror of Debian, or build/systemd",
  ),
);

/**
 * Makes the root unless it is there. Processes that do so at the same time wait
 * for the first.
 */
function ensureRoot(): boolean {
  Deno.mkdirSync(dirname(ROOT), { recursive: true });
  using lock = Deno.openSync(`${ROOT}.lock`, { create: true, write: true });
  lock.lockSync(true);
  if (exists(ROOT)) return true;
  const isForbidden = Deno.env.get("CNI_TEST_NO_INSTALL") === "1";
  if (isForbidden || !hasCommand("debootstrap")) return false;
  const unfinished = `${ROOT}.unfinished`;
  if (exists(unfinished)) Deno.removeSync(unfinished, { recursive: true });
  // It mounts /proc there, which must not outlive it if it is killed.
  const { success } = new Deno.Command("unshare", {
    args: [
      ...["--mount", "--propagation=private", "debootstrap"],
      ...["--variant=minbase", `--include=${PACKAGES}`, SUITE, unfinished],
      ...findMirror(),
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).outputSync();
  if (success) Deno.renameSync(unfinished, ROOT);
  return success;
}

/** Finds the mirror that this machine uses; none means debootstrap's own. */
function findMirror(): string[] {
  const output = ifPossible(() =>
    new Deno.Command("apt-get", {
      args: ["indextargets", "--format", "$(SITE)"],
    }).outputSync()
  );
  const sites = new TextDecoder().decode(output?.stdout).split("\n");
  const site = sites.find((one) => /^http.*\/debian$/.test(one));
  return site === undefined ? [] : [site];
}

/** How a command ended. */
export interface Ended {
  readonly code: number;
  /** stdout, then stderr. */
  readonly text: string;
}

/** Flags of systemd-nspawn: changes to the root are in memory. */
function listFlags(shown: Readonly<Record<string, string>> = {}): string[] {
  const binds = Object.entries({ ...shown, [BIN_INSIDE]: BIN });
  return [
    ...["--quiet", `--directory=${ROOT}`, "--volatile=overlay"],
    ...["--private-network", "--register=no", "--keep-unit"],
    ...binds.map(([inside, path]) => `--bind-ro=${path}:${inside}`),
    // What is bound must not be a problem for others with this machine's ID.
    `--machine=cni-test-${crypto.randomUUID().slice(0, 8)}`,
  ];
}

/** Runs a shell's commands in the root, without systemd, as a build of an image does. */
export async function runInImage(script: string): Promise<Ended> {
  return await end(
    new Deno.Command("systemd-nspawn", {
      args: [...listFlags(), "--pipe", "sh", "-c", script],
      stdin: "null",
    }),
  );
}

/** A running machine. */
export class SystemdNode implements AsyncDisposable {
  readonly #container: Deno.ChildProcess;
  /** Its systemd. */
  readonly #init: number;

  private constructor(container: Deno.ChildProcess, init: number) {
    [this.#container, this.#init] = [container, init];
  }

  /**
   * Boots it. The executables are in `/mnt`.
   *
   * @param shown Directories of this machine, by their paths on the node
   */
  static async boot(
    shown: Readonly<Record<string, string>> = {},
  ): Promise<SystemdNode> {
    const container = new Deno.Command("systemd-nspawn", {
      args: [...listFlags(shown), "--boot", "--console=pipe"],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const said = new Response(container.stderr).text();
    container.status.then(async ({ code }) => {
      if (code !== 0) console.error(`systemd-nspawn: ${code}: ${await said}`);
    });
    const children = `/proc/${container.pid}/task/${container.pid}/children`;
    let init = 0;
    await eventually("the container runs systemd", () => {
      init = Number.parseInt(Deno.readTextFileSync(children));
      return ifPossible(() => Deno.readTextFileSync(`/proc/${init}/comm`)) ===
        "systemd\n";
    });
    const node = new SystemdNode(container, init);
    await eventually("systemd has booted", async () => {
      const { text } = await node.run("systemctl is-system-running");
      return /^(running|degraded)/.test(text);
    });
    return node;
  }

  /** Runs a shell's commands. */
  async run(script: string): Promise<Ended> {
    return await end(
      new Deno.Command("nsenter", {
        args: [
          ...["--target", `${this.#init}`, "--all", "--root", "--wd"],
          ...["sh", "-c", script],
        ],
        clearEnv: true,
        env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
        stdin: "null",
      }),
    );
  }

  /** Runs commands that must succeed, and returns what they print. */
  async get(script: string): Promise<string> {
    const { code, text } = await this.run(script);
    if (code === 0) return text.trim();
    throw new Error(`${script}: exit code ${code}: ${text}`);
  }

  /** Path by which this machine finds a file on the node. */
  pathOf(path: string): string {
    return `/proc/${this.#init}/root${path}`;
  }

  /** Path of its network namespace. */
  get netns(): string {
    return `/proc/${this.#init}/ns/net`;
  }

  /** Shuts it down. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#container.kill("SIGTERM");
    const isOver = await Promise.race([
      this.#container.status,
      pause(SHUTDOWN_MS),
    ]);
    if (isOver === undefined) this.#container.kill("SIGKILL");
    await this.#container.status;
  }
}

async function end(command: Deno.Command): Promise<Ended> {
  const { code, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  return { code, text: decoder.decode(stdout) + decoder.decode(stderr) };
}

function exists(path: string): boolean {
  return ifPossible(() => Deno.statSync(path)) !== undefined;
}
