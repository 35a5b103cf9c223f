// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

/** The search for living containers, among processes that try to stop or mislead it. */

import { assertEquals } from "@std/assert";
import { findFileId } from "../../../base/files/same_file.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { WriteLease } from "../../../tests/_harness/write_lease.ts";
import { NodeEvidence } from "./evidence.ts";
import { isTrusted, listRunningPlugins, readProcesses } from "./processes.ts";

/** A program that says when it is ready, and then waits. */
class Program implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  static async start(
    script: string,
    { args = [], env = {}, by = [] }: {
      readonly args?: readonly string[];
      readonly env?: Record<string, string>;
      readonly by?: readonly string[];
    } = {},
  ): Promise<Program> {
    const [file = "", ...rest] = [...by, "sh", "-c", script, "sh", ...args];
    const child = new Deno.Command(file, {
      args: rest,
      env,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const reader = child.stdout.getReader();
    const { value } = await reader.read();
    reader.releaseLock();
    assertEquals(new TextDecoder().decode(value), "ready\n");
    return new Program(child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.stdin.close();
    await this.#child.stdout.cancel();
    await this.#child.status;
  }
}

const WAIT = "echo ready; read line";

function randomId(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toHex();
}

function gather(
  { host }: TestHosts,
  options: { readonly mostAddresses?: number } = {},
): Promise<NodeEvidence> {
  const hostNetns = host.path;
  const nothing = { caches: [], leases: [], graceMs: 0 };
  return NodeEvidence.gather({ hostNetns, ...nothing, ...options });
}

rootTest("evidence: only namespace files are opened", async () => {
  using hosts = TestHosts.create();
  const { directory } = hosts;
  const leased = `${directory}/leased`;
  Deno.writeTextFileSync(leased, "");
  using lease = new WriteLease(leased);
  // The kernel lists the mount that the other file system hides.
  await using _program = await Program.start(
    `mkdir ${directory}/a && touch ${directory}/a/x &&
     mount --bind /proc/self/ns/net ${directory}/a/x &&
     mount -t tmpfs tmpfs ${directory}/a && ln -s ${leased} ${directory}/a/x &&
     ${WAIT}`,
    { by: ["unshare", "-m"] },
  );
  assertEquals((await gather(hosts)).unread, undefined);
  assertEquals(lease.isBroken, false);
});

rootTest("evidence: too many addresses keep all resources", async () => {
  using hosts = TestHosts.create();
  for (const ip of ["10.1.2.3/24", "10.1.2.4/24"]) {
    runIn(hosts.sandbox, "ip", "address", "add", ip, "dev", "lo");
  }
  const owner = { container: randomId() };
  const evidence = await gather(hosts);
  assertEquals(evidence.unread, undefined);
  const why = "no process or attachment of the container";
  assertEquals(evidence.findReason(owner), { why });
  const partial = await gather(hosts, { mostAddresses: 1 });
  assertEquals(partial.unread, "namespaces have more than 1 addresses");
  assertEquals(partial.findReason(owner), undefined);
});

rootTest("evidence: only root's processes count as plugins", async () => {
  const [ofRoot, ofOthers] = [randomId(), randomId()];
  const variables = (container: string): Record<string, string> => ({
    CNI_COMMAND: "DEL",
    CNI_CONTAINERID: container,
  });
  await using _root = await Program.start(WAIT, { env: variables(ofRoot) });
  await using _other = await Program.start(WAIT, {
    env: variables(ofOthers),
    by: ["setpriv", "--reuid=65534", "--clear-groups"],
  });
  // Like su, which waits for a password.
  await using _becoming = await Program.start(WAIT, {
    env: variables(ofOthers),
    by: ["setpriv", "--ruid=65534", "--keep-groups"],
  });
  const find = async (container: string): Promise<string[]> =>
    (await listRunningPlugins()).filter((one) => one.container === container)
      .map(({ command }) => command);
  assertEquals(await find(ofRoot), ["DEL"]);
  assertEquals(await find(ofOthers), []);
  const { plugins } = await readProcesses();
  assertEquals(
    plugins.filter(({ container }) => [ofRoot, ofOthers].includes(container))
      .map(({ container }) => container),
    [ofRoot],
  );
});

Deno.test("isTrusted() accepts processes of root and of the same user", () => {
  const rows = [
    ["0 0 0 0", 0, true],
    ["0 0 0 0", 1000, true],
    ["1000 1000 1000 1000", 1000, true],
    ["1000 1000 1000 1000", 0, false],
    ["1001 1001 1001 1001", 1000, false],
    // su, which waits for a password.
    ["1000 0 0 0", 0, false],
    ["1000 0 0 0", 1000, false],
  ] as const;
  for (const [ids, uid, expected] of rows) {
    const status = `Name:\tx\nUid:\t${ids.replaceAll(" ", "\t")}\nGid:\t0\n`;
    assertEquals(isTrusted(status, uid), expected, `${ids} ${uid}`);
  }
  assertEquals(isTrusted("", 0), false);
});

rootTest("evidence: a large descriptor table is searched", async () => {
  await using program = await Program.start(
    `ulimit -n 18000
     exec bash -c 'exec 17000< /proc/self/ns/net &&
       exec nsenter --net=/proc/$PPID/ns/net sh -c "${WAIT}"'`,
    { by: ["unshare", "-n"] },
  );
  const held = `/proc/${program.pid}/fd/17000`;
  const { namespaces } = await readProcesses();
  assertEquals(namespaces.get(findFileId(held) ?? ""), held);
});

rootTest("evidence: only the start of a command line is read", async () => {
  const [first, last] = [randomId(), randomId()];
  const long = Array.from({ length: 20 }, () => "x ".repeat(30_000));
  await using _program = await Program.start(WAIT, {
    args: [`--id=/run/${first}/x`, ...long, last],
  });
  const { words, unread } = await readProcesses();
  assertEquals(
    [first, last].map((id) => words.has(id)),
    [true, false],
  );
  assertEquals(unread, undefined);
});
