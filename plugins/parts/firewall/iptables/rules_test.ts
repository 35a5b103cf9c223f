import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { describeError } from "../../../../base/error.ts";
import { NetNs } from "../../../../ffi/netns.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  rootTest,
} from "../../../../testing/capabilities.ts";
import { isTaken } from "../../../../base/files/io.ts";
import { TestHosts } from "../../../../testing/test_hosts.ts";
import { eventually } from "../../../../tests/_harness/eventually.ts";
import {
  needsLegacyIptables,
  needsRuleTools,
} from "../../../../tests/_harness/rules.ts";
import { BackendMissing, findVariant, type Variant } from "./find.ts";
import {
  commentOf,
  GivenUp,
  type Iptables,
  joinRule,
  splitRule,
  Untried,
} from "./program.ts";
import {
  addLineOf,
  changeRules,
  deleteLineOf,
  ensureRules,
  type IptablesRule,
  listMissingRules,
  listRules,
  listTable,
  removeEach,
  type Wanted,
} from "./rules.ts";

const COMMENT = 'a "quoted" \\ comment';
const WANTED: Wanted = {
  chains: ["ONE", "TWO"],
  rules: [
    { chain: "ONE", args: ["-s", "10.1.2.3", "-j", "TWO"] },
    { chain: "POSTROUTING", args: ["-j", "ONE"], isFirst: true },
    {
      chain: "PREROUTING",
      args: ["-p", "tcp", "-m", "comment", "--comment", COMMENT, "-j", "TWO"],
    },
  ],
};
const CANARY = "-A POSTROUTING -s 10.9.9.9/32 -j ACCEPT";

Deno.test("joinRule() and splitRule() are inverse", () => {
  const args = ["-m", "comment", "--comment", COMMENT, "", "-j", "A-b_1"];
  assertEquals(splitRule(joinRule(args)), args);
  assertEquals(commentOf(joinRule(args)), COMMENT);
  assertEquals(commentOf("-A ONE -j TWO"), "");
});

/** Registers a test for each variant of iptables. */
function testVariants(
  name: string,
  body: (iptables: Iptables) => Promise<void>,
  more: Needs = needsRuleTools,
): void {
  const needs: Record<Variant, Needs> = {
    nft: allOf(needsRuleTools, more),
    legacy: allOf(needsRuleTools, needsLegacyIptables(), more),
  };
  for (const variant of ["nft", "legacy"] as const) {
    rootTest(`${name} (iptables-${variant})`, needs[variant], async () => {
      using hosts = TestHosts.create();
      using netns = NetNs.open(hosts.host.path);
      const program = findVariant(variant, 4, Deno.env.get("PATH"));
      assert(program !== undefined);
      const { path } = program;
      await body({ netns, family: 4, table: "nat", path });
    });
  }
}

async function listAll(iptables: Iptables): Promise<unknown[]> {
  const chains = ["PREROUTING", "POSTROUTING", ...WANTED.chains];
  return await Promise.all(chains.map((chain) => listRules(iptables, chain)));
}

testVariants(
  "ensureRules() adds missing rules only",
  async (iptables) => {
    await changeRules(
      iptables,
      async () =>
        (await listRules(iptables, "POSTROUTING"))?.length === 0
          ? [CANARY]
          : [],
    );
    await ensureRules(iptables, WANTED);
    const expected = await listAll(iptables);
    assertEquals(expected.slice(1), [
      ["-A POSTROUTING -j ONE", CANARY],
      ["-A ONE -s 10.1.2.3/32 -j TWO"],
      [],
    ]);
    await ensureRules(iptables, WANTED);
    assertEquals(await listAll(iptables), expected);
    await changeRules(iptables, async () => {
      const rules = await listRules(iptables, "PREROUTING") ?? [];
      return rules.map(deleteLineOf);
    });
    await ensureRules(
      iptables,
      WANTED,
      () => Promise.resolve(["-A TWO -j RETURN"]),
    );
    assertEquals(await listAll(iptables), [
      ...expected.slice(0, 3),
      ["-A TWO -j RETURN"],
    ]);
    assertEquals(await listMissingRules(iptables, WANTED.rules), []);
    const args = ["-s", "10.1.2.4", "-j", "TWO"];
    const gone = { chain: "ONE", args };
    const nowhere = { chain: "NONE", args };
    const rules = [...WANTED.rules, gone, nowhere];
    assertEquals(await listMissingRules(iptables, rules), [gone, nowhere]);
    assertEquals(await listMissingRules(iptables, [nowhere]), [nowhere]);
  },
);

testVariants("concurrent ensureRules() add no rule twice", async (iptables) => {
  const calls = Array.from(
    { length: 4 },
    (_, index) => {
      const more = [`-A TWO -s 10.0.0.${index}`];
      return ensureRules(iptables, WANTED, () => Promise.resolve(more));
    },
  );
  await Promise.all(calls);
  const [prerouting, postrouting, one, two] = await listAll(iptables) as [
    string[],
    string[],
    string[],
    string[],
  ];
  assertEquals([prerouting.length, postrouting.length, one.length], [1, 1, 1]);
  assertEquals(two.length, 4);
});

testVariants("concurrent calls share runs of the program", async (real) => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const log = `${directory}/log`;
  for (const suffix of ["", "-restore"]) {
    const script =
      `#!/bin/sh\necho "$@" >>${log}\nexec ${real.path}${suffix} "$@"\n`;
    const path = `${directory}/iptables${suffix}`;
    await Deno.writeTextFile(path, script, { mode: 0o755 });
  }
  const iptables = { ...real, path: `${directory}/iptables` };
  const count = 20;
  const rules = Array.from({ length: count }, (_, index): IptablesRule[] => [{
    chain: "TWO",
    args: ["-s", `10.0.0.${index}`, "-j", "RETURN"],
  }]);
  try {
    await Promise.all(rules.map(async (own) => {
      assertEquals(await listMissingRules(iptables, own), own);
      await ensureRules(
        iptables,
        WANTED,
        () => Promise.resolve(own.map(addLineOf)),
      );
      const all = [...WANTED.rules, ...own];
      assertEquals(await listMissingRules(iptables, all), []);
    }));
    assertEquals((await listRules(real, "TWO"))?.length, count);
    const runs = (await Deno.readTextFile(log)).trim().split("\n");
    assert(runs.length < count, runs.join("\n"));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

testVariants(
  "ensureRules() fails only the cancelled call",
  async (iptables) => {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    const path = `${directory}/iptables`, hangs = `${directory}/hangs`;
    const script = `#!/bin/sh\ntouch ${hangs}\nexec sleep 600\n`;
    await Deno.writeTextFile(path, script, { mode: 0o755 });
    const gone = new AbortController();
    const given = { ...iptables, signal: gone.signal };
    const planned = (more: string) => () => Promise.resolve([more]);
    try {
      // The others share the run after the first.
      const first = ensureRules(iptables, WANTED);
      const innocent = { ...iptables, signal: new AbortController().signal };
      const kept = ensureRules(innocent, WANTED, planned("-A TWO -j ACCEPT"));
      const lost = ensureRules(given, WANTED, async () => {
        await listRules({ ...given, path }, "ONE");
        return ["-A TWO -j DROP"];
      });
      const ended = Promise.allSettled([first, kept, lost]);
      await eventually("a program hangs", () => isTaken(hangs));
      gone.abort();
      assertEquals((await ended).map(({ status }) => status), [
        "fulfilled",
        "fulfilled",
        "rejected",
      ]);
      await assertRejects(() => lost, GivenUp);
      assertEquals(await listRules(iptables, "TWO"), ["-A TWO -j ACCEPT"]);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
);

testVariants(
  "changeRules() applies all changes or none, and reports the reason",
  async (iptables) => {
    const changes = ["-N ONE", "-A ONE -j NO-SUCH-CHAIN"];
    const refused = (): Promise<void> =>
      changeRules(iptables, () => Promise.resolve(changes));
    await assertRejects(refused, Error, "NO-SUCH-CHAIN");
    assertEquals(await listRules(iptables, "ONE"), undefined);
    const wanted = { chains: ["ONE"], rules: [] };
    await assertRejects(
      () =>
        ensureRules(iptables, wanted, () => Promise.resolve(changes.slice(1))),
      Error,
      "NO-SUCH-CHAIN",
    );
    assertEquals(await listRules(iptables, "ONE"), undefined);
  },
);

/** Adds chains, and one more that keeps one of them; removes them, and counts the runs. */
class StaleChains {
  readonly all = Array.from({ length: 64 }, (_, index) => `STALE-${index}`);
  readonly #iptables: Iptables;
  runs = 0;

  constructor(iptables: Iptables) {
    this.#iptables = iptables;
  }

  async add(kept: readonly string[] = []): Promise<void> {
    const chains = [...this.all, "THEIRS"].map((chain) => `-N ${chain}`);
    const rules = kept.map((chain) => `-A THEIRS -j ${chain}`);
    await changeOnce(this.#iptables, [...chains, ...rules]);
  }

  async remove(
    iptables = this.#iptables,
    signal?: AbortSignal,
  ): Promise<void> {
    await removeEach(this.all, (some) => {
      this.runs++;
      return changeOnce(iptables, some.map((chain) => `-X ${chain}`));
    }, signal);
  }

  async list(): Promise<string[]> {
    const listed = await listTable(this.#iptables);
    return listed.flatMap((line) => /^-N (STALE-.*)/.exec(line)?.[1] ?? []);
  }
}

function changeOnce(
  iptables: Iptables,
  changes: readonly string[],
): Promise<void> {
  return changeRules(iptables, () => Promise.resolve(changes));
}

testVariants(
  "removeEach() halves the list to find a chain that cannot be removed",
  async (iptables) => {
    const stale = new StaleChains(iptables);
    await stale.add(["STALE-7"]);
    const error = await assertRejects(() => stale.remove());
    assertStringIncludes(
      describeError(error),
      'Cannot remove the chain "STALE-7"',
    );
    assertEquals(await stale.list(), ["STALE-7"]);
    // The whole list, and two halves of each size.
    assertEquals(stale.runs, 1 + 2 * Math.log2(stale.all.length));
  },
);

testVariants(
  "removeEach() stops if the failure is not due to a chain",
  async (iptables) => {
    const stale = new StaleChains(iptables);
    await stale.add(["STALE-7"]);
    const missing = { ...iptables, path: "/nowhere/iptables" };
    await assertRejects(() => stale.remove(missing), BackendMissing);
    assertEquals(stale.runs, 1);
    const ended = AbortSignal.abort(new Error("too late"));
    await assertRejects(
      () => stale.remove(iptables, ended),
      Error,
      "too late",
    );
    assertEquals(stale.runs, 1);
    assertEquals((await stale.list()).length, stale.all.length);
  },
);

rootTest(
  "removeEach() waits once for the lock on the rules",
  allOf(
    needsRuleTools,
    needsLegacyIptables(),
    ignoreUnless(hasCommand("flock"), "needs flock"),
  ),
  async () => {
    using hosts = TestHosts.create();
    using netns = NetNs.open(hosts.host.path);
    const program = findVariant("legacy", 4, Deno.env.get("PATH"));
    assert(program !== undefined);
    const lock = `${hosts.directory}/lock`;
    const path = `${hosts.directory}/iptables`;
    // The last wait counts.
    for (const [suffix, options] of [["", "-w 1"], ["-restore", "--wait=1"]]) {
      await Deno.writeTextFile(
        path + suffix,
        `#!/bin/sh\nexport XTABLES_LOCKFILE=${lock}\n` +
          `exec ${program.path}${suffix} "$@" ${options}\n`,
        { mode: 0o755 },
      );
    }
    const iptables: Iptables = { netns, family: 4, table: "nat", path };
    const stale = new StaleChains(iptables);
    await stale.add();
    const other = new Deno.Command("flock", {
      args: [lock, "sh", "-c", "echo locked; cat"],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const reader = other.stdout.getReader();
    await reader.read();
    try {
      await assertRejects(() => stale.remove(), Untried, "lock");
      assertEquals(stale.runs, 1);
    } finally {
      await Promise.all([other.stdin.close(), reader.cancel()]);
      await other.status;
    }
    await stale.remove();
    assertEquals(await stale.list(), []);
  },
);
