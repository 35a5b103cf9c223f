/**
 * What the tests see of the machine, as root: a node that other software uses.
 *
 * No test may depend on what the machine has in /etc/cni, /opt/cni/bin,
 * /var/lib/cni and /run, or in its own network namespace. So the tests run where
 * all of this is foreign: networks of podman, a configuration that is broken, leases and
 * records of another container, a daemon's socket that nobody serves, links and
 * routes of docker. A test that uses them without its own directories or
 * namespaces fails on every machine, and the machine's own stay as they are.
 *
 * @module
 */

const SCRIPT = new URL("used_node.sh", import.meta.url).pathname;
const ROOTLESS = new URL("rootless.sh", import.meta.url).pathname;

/** The user who is root in a node's user namespace, and the first of its others. */
const ROOTLESS_UID = 100_000, UIDS = 65_536;

/** Directories that tests must leave alone. */
const DIRECTORIES = ["/etc/cni", "/opt/cni", "/var/lib/cni", "/run"];

/**
 * Gives a process records of chains and private locks of its own: their directories
 * cannot be configured, the daemons and searches of other tests would take the
 * records for orphans, and a call that a test kills leaves its lock's file.
 */
const OWN_RECORDS = "for directory in chain locks; do " +
  "mount -t tmpfs -o mode=700 tmpfs /run/cni/$directory; done; " +
  'exec "$@"';

/** Bytes of a file to quote. */
const MAX_QUOTED = 500;

/** A mount and a network namespace; they end with it. */
export class UsedNode implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly #root: string;
  readonly #before: readonly string[];
  /** The command that enters it, in front of another command. */
  readonly enter: readonly string[];

  private constructor(
    pid: number,
    enter: readonly string[],
    env: readonly string[],
    stack: AsyncDisposableStack,
  ) {
    this.#stack = stack;
    this.#root = `/proc/${pid}/root`;
    this.#before = this.#list();
    const own = ["unshare", "-m", "--propagation", "private"];
    this.enter = [
      ...[...enter, "-r", "-w", "--", ...own, "sh", "-ec", OWN_RECORDS, "sh"],
      ...["env", ...env],
    ];
  }

  /**
   * Creates the node.
   *
   * @throws {Error} If the machine cannot; the message is that of the program
   */
  static async start(): Promise<UsedNode> {
    await using stack = new AsyncDisposableStack();
    const work = await makeDirectory(stack);
    const make = ["unshare", "-m", "-n", "--propagation", "private"];
    const { pid, said } = await hold(stack, [...make, "sh", SCRIPT, work]);
    stack.use(refuseCalls(`/proc/${pid}/root/run/cni/daemon.sock`));
    const enter = ["nsenter", "-t", `${pid}`, "-m", "-n"];
    return new UsedNode(pid, enter, envOf(said), stack.move());
  }

  /**
   * Creates a node in a user namespace, where root is nobody on the machine.
   *
   * @param paths What the tests there need, wherever it is
   * @throws {Error} If the machine cannot; the message is that of the program
   */
  static async startRootless(paths: readonly string[]): Promise<UsedNode> {
    await using stack = new AsyncDisposableStack();
    const work = await makeDirectory(stack);
    await Deno.chown(work, ROOTLESS_UID, ROOTLESS_UID);
    const { pid } = await hold(stack, [
      ...["unshare", "-m", "--propagation", "private"],
      ...["sh", ROOTLESS, work, `${ROOTLESS_UID}`, ...paths],
    ]);
    for (const file of ["uid_map", "gid_map"]) {
      const ids = `0 ${ROOTLESS_UID} ${UIDS}`;
      await Deno.writeTextFile(`/proc/${pid}/${file}`, ids);
    }
    const enter = ["nsenter", "-t", `${pid}`, "-U", "-m", "-n"];
    const make = [...enter, "-r", "-w", "--", "sh", SCRIPT, work];
    const { said } = await hold(stack, make);
    const env = [...envOf(said), "CNI_TEST_ROOTLESS=1"];
    return new UsedNode(pid, enter, env, stack.move());
  }

  /** Lists the files that tests have added to the node, or removed from it: failures. */
  listChanges(): string[] {
    const now = this.#list();
    return [
      ...now.filter((path) => !this.#before.includes(path))
        .map((path) => `added ${path}${this.#quote(path)}`),
      ...this.#before.filter((path) => !now.includes(path))
        .map((path) => `removed ${path}`),
    ];
  }

  /** Quotes the beginning of a file: it may tell which test has made it. */
  #quote(path: string): string {
    try {
      using file = Deno.openSync(this.#root + path);
      const bytes = new Uint8Array(MAX_QUOTED);
      const length = file.readSync(bytes) ?? 0;
      const text = new TextDecoder().decode(bytes.subarray(0, length));
      return `: ${JSON.stringify(text)}`;
    } catch {
      return ""; // A socket, or a file of another file system.
    }
  }

  #list(): string[] {
    return DIRECTORIES.flatMap((path) => this.#listFiles(path));
  }

  #listFiles(directory: string): string[] {
    return [...Deno.readDirSync(this.#root + directory)].flatMap((entry) => {
      const path = `${directory}/${entry.name}`;
      return entry.isDirectory ? this.#listFiles(path) : [path];
    });
  }

  /** Ends the node. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

async function makeDirectory(stack: AsyncDisposableStack): Promise<string> {
  const work = await Deno.makeTempDir({ prefix: "cni-test-node-" });
  stack.defer(() => Deno.remove(work));
  return work;
}

/** Returns the variable that says where temporary files go. */
function envOf(temporary: string): string[] {
  return temporary === "" ? [] : [`TMPDIR=${temporary}`];
}

/**
 * Starts a program that prints a line once it has done its work, and ends with
 * its stdin: not by Ctrl-C, so that the run can still say what was changed.
 */
async function hold(
  stack: AsyncDisposableStack,
  [program = "", ...args]: readonly string[],
): Promise<{ pid: number; said: string }> {
  const holder = new Deno.Command(program, {
    args,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  const errors = new Response(holder.stderr).text();
  stack.defer(async () => {
    await holder.stdin.close();
    await holder.status;
  });
  const reader = holder.stdout.getReader();
  const { done, value } = await reader.read();
  await reader.cancel();
  if (done) throw new Error((await errors).trim());
  return { pid: holder.pid, said: new TextDecoder().decode(value).trim() };
}

/** Listens where a daemon would, and closes each connection. */
function refuseCalls(path: string): Disposable {
  const listener = Deno.listen({ transport: "unix", path });
  const serve = async (): Promise<void> => {
    for await (const connection of listener) connection.close();
  };
  serve().catch(() => {}); // It was closed while it waited.
  return { [Symbol.dispose]: () => listener.close() };
}
