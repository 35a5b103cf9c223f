/**
 * Gets what tests run on, and with: packages, downloads, executables, nodes.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import {
  canUseNetns,
  missingForNetns,
  needsUserNamespaces,
} from "../../testing/capabilities.ts";
import { ensureCompiled } from "../compile.ts";
import { findDenoDirectory, ROOT, runDeno } from "../project.ts";
import { installTestPackages } from "../setup/debian_packages.ts";
import { startGoPrograms } from "../setup/go_plugins.ts";
import { ensureKernel } from "../kernel/find_kernel.ts";
import type { TestPlace } from "./run.ts";
import { UsedNode } from "./used_node.ts";

/** Whether the tests must not install or download anything. */
const NO_INSTALL = Deno.env.get("CNI_TEST_NO_INSTALL") === "1";

/** What the tests to run need. */
export interface Wanted {
  /** Flags for any deno command. */
  readonly flags: readonly string[];
  /** The files. */
  readonly paths: readonly string[];
  /** Whether they start executables. */
  readonly bin: boolean;
  /** Whether they run programs in Go. */
  readonly go: boolean;
  /** Whether some run in another kernel. */
  readonly kernel: boolean;
  /** Whether some run in a user namespace. */
  readonly rootless: boolean;
}

/** The preparation of tests, made beside the checks, which need none of it. */
export class Preparation implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly place: Promise<TestPlace>;
  /** Whether the executables could be built. */
  isBuilt = true;
  readonly #nodes: UsedNode[] = [];

  constructor(wanted: Wanted, stop: AbortSignal) {
    this.place = this.#prepare(wanted, stop);
    this.place.catch(() => {}); // Whoever waits for it gets the error.
  }

  async #prepare(wanted: Wanted, stop: AbortSignal): Promise<TestPlace> {
    if (wanted.go) this.#stack.use(await buildGoPrograms(stop));
    const built = wanted.bin ? this.#build() : Promise.resolve(undefined);
    const [bin] = await Promise.all([
      built,
      downloadAll(wanted, built),
      installTestPackages(),
      wanted.kernel && !NO_INSTALL ? ensureKernel() : undefined,
    ]);
    explainSkips();
    const node = this.#keep(await startNode());
    const rootless = wanted.rootless
      ? this.#keep(await startRootlessNode())
      : "no test needs it";
    return {
      enter: node?.enter ?? [],
      enterRootless: typeof rootless === "string" ? rootless : rootless.enter,
      env: bin === undefined ? {} : { CNI_BIN: bin },
    };
  }

  async #build(): Promise<string | undefined> {
    try {
      return await ensureCompiled();
    } catch (error) {
      this.isBuilt = false;
      console.error(`Cannot build the executables: ${describeError(error)}`);
      return undefined;
    }
  }

  /** Ends a node in the end. */
  #keep<Node>(node: Node): Node {
    if (node instanceof UsedNode) this.#nodes.push(this.#stack.use(node));
    return node;
  }

  /** Lists what tests have changed on the nodes. */
  listChanges(): string[] {
    return this.#nodes.flatMap((node) => node.listChanges());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place.catch(() => {});
    await this.#stack[Symbol.asyncDispose]();
  }
}

/**
 * Starts to build the Go programs that tests run. Test files that use
 * them wait for the end of the build, others do not.
 *
 * @returns Ends the build if it is still running
 */
async function buildGoPrograms(stop: AbortSignal): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  if (NO_INSTALL) return stack;
  const end = new AbortController();
  const signal = AbortSignal.any([stop, end.signal]);
  const { ended } = await startGoPrograms(signal, "actionlint");
  const told = ended.then((trouble) => {
    if (trouble === undefined || end.signal.aborted) return;
    console.error(`Not all Go programs, so some tests skip: ${trouble}`);
  });
  stack.defer(async () => {
    end.abort();
    await told;
  });
  return stack;
}

/**
 * Downloads what tests need, for on their node nothing can be: neither packages
 * nor what bundles, which tests do that need executables.
 *
 * @param built Bundles as well: two processes that download esbuild at the same
 *   time fail
 */
async function downloadAll(
  { flags, paths, bin }: Wanted,
  built: Promise<unknown>,
): Promise<void> {
  if (!canUseNetns) return;
  // A test fails that lacks something.
  await runDeno(["cache", "-q", ...flags, ...paths]).catch(() => {});
  if (!bin) return;
  await built;
  await runDeno(["bundle", "-q", ...flags, "scripts/command_line.ts"]).catch(
    () => {},
  );
}

/** Creates what the tests see of the machine; undefined if they see itself. */
async function startNode(): Promise<UsedNode | undefined> {
  if (!canUseNetns) return undefined;
  try {
    return await UsedNode.start();
  } catch (error) {
    console.error(
      `The tests see the machine's own /etc: ${describeError(error)}`,
    );
    return undefined;
  }
}

/** Creates a node in a user namespace; returns a text if that cannot be: why. */
async function startRootlessNode(): Promise<UsedNode | string> {
  if (missingForNetns !== undefined) return missingForNetns;
  if (needsUserNamespaces().ignore) return "needs user namespaces";
  const paths = [ROOT, Deno.execPath(), findDenoDirectory()];
  try {
    return await UsedNode.startRootless(paths);
  } catch (error) {
    return describeError(error);
  }
}

function explainSkips(): void {
  if (missingForNetns === undefined) return;
  const hint = Deno.uid() === 0
    ? "in a chroot, first `mount --bind DIRECTORY DIRECTORY`"
    : "run as root, or under `unshare -Urnm`";
  console.error(
    `Tests in network namespaces skip: ${missingForNetns}; ${hint}`,
  );
}
