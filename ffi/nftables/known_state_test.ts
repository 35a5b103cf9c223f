import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Bytes } from "../../net/bytes.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { NetlinkError } from "../netlink/error.ts";
import { observeNetlink } from "../netlink/observer.ts";
import { inNetns } from "../netns.ts";
import {
  addChain,
  addElements,
  addSet,
  addTable,
  appendRule,
  type Change,
  delChainOf,
  delElementsOf,
  delRuleOf,
  delSetOf,
  delTableOf,
  type Element,
  flushChain,
  type NewSet,
  type Table,
} from "./change.ts";
import { decide, goTo } from "./expression.ts";
import { Nftables } from "./mod.ts";

const TABLE: Table = { family: "inet", name: "test" };
const OTHER_TABLE: Table = { family: "ip", name: "other" };
const CHAIN = "checks", OTHER = "other";
const SET: NewSet = { name: "addresses", key: "ipv4_addr" };

const ownerOf = ({ comment }: { comment: string }): string =>
  comment.split(" ")[0] ?? "";

function addRule(owner: string, chain = CHAIN): Change {
  const expressions = [decide("return")];
  return appendRule(TABLE, { chain, expressions, comment: `${owner} rule` });
}

const delRule = (handle: bigint): Change => delRuleOf(TABLE, CHAIN, handle);

const keyOf = (number: number): Bytes =>
  Uint8Array.of(10, 1, number >> 8, number & 0xff);

function elementOf(number: number, owner: string): Element {
  return { key: keyOf(number), comment: `${owner} owns ${number}` };
}

const add = (number: number, owner: string): Change =>
  addElements(TABLE, SET.name, [elementOf(number, owner)]);
const del = (number: number): Change =>
  delElementsOf(TABLE, SET.name, [{ key: keyOf(number) }]);

/** A chain with a rule of each of three owners, and a reference to it. */
const CHAINS: readonly Change[] = [
  addChain(TABLE, CHAIN),
  addChain(TABLE, OTHER),
  appendRule(TABLE, { chain: OTHER, expressions: [goTo(CHAIN)] }),
  ...["one", "two", "three"].map((owner) => addRule(owner)),
];

/** These chains, and a set with an element of each of the owners. */
const SKELETON: readonly Change[] = [
  addTable(TABLE),
  ...CHAINS,
  addSet(TABLE, SET),
  add(1, "one"),
  add(2, "two"),
  add(3, "three"),
];

/** The comments of what is found, and whether there are others. */
type Found = [comments: string[], hasOthers: boolean];

/** Finds the rules of an owner. */
function findRules(nftables: Nftables, owner: string): Found {
  const { rules, hasOthers } = nftables
    .findRules(TABLE, CHAIN, ownerOf, owner);
  return [rules.map(({ comment }) => comment), hasOthers];
}

/** Finds the elements of an owner, or with a key. */
function findElements(nftables: Nftables, wanted: string | Bytes): Found {
  const part = typeof wanted === "string"
    ? new TextEncoder().encode(`${wanted} owns`)
    : wanted;
  const { elements, hasOthers } = nftables
    .findElements(TABLE, SET.name, [part]);
  return [elements.map(({ comment }) => comment).sort(), hasOthers];
}

/** Counts the lists that are asked for meanwhile. */
function countLists(work: () => void): number {
  let count = 0;
  observeNetlink(({ isDump }, work) => {
    if (isDump) count++;
    return work();
  });
  try {
    work();
  } finally {
    observeNetlink(undefined);
  }
  return count;
}

/** A process that stays, and another one that does not tell it what it does. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly ours: Nftables;
  readonly theirs: Nftables;

  constructor() {
    const { path } = this.#stack.use(TestHosts.create()).host;
    this.#stack.use(Nftables.keepOpen(path));
    this.ours = this.#stack.use(Nftables.open(path));
    // Kept by its path: another one is another program's.
    this.theirs = this.#stack
      .use(Nftables.open(path.replace("/proc/", "/proc/./")));
    this.theirs.commit(SKELETON);
  }

  /** As each call does first. */
  get current(): Nftables {
    this.ours.generation();
    return this.ours;
  }

  /** Changes the table behind the back of the process that stays. */
  change(
    plan: (handleOf: (owner: string) => bigint) => readonly Change[],
  ): void {
    const rules = this.theirs.listRules(TABLE, CHAIN);
    this.theirs.commit(
      plan((owner) =>
        rules.find((rule) => ownerOf(rule) === owner)?.handle ?? 0n
      ),
    );
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** What another program does; then the number of rules of `one`, and whether there are others. */
const FOREIGN_RULES: readonly [
  name: string,
  plan: (handleOf: (owner: string) => bigint) => readonly Change[],
  ones: number,
  hasOthers: boolean,
][] = [
  ["nothing", () => [], 1, true],
  ["deletes the rule", (of) => [delRule(of("one"))], 0, true],
  ["deletes another rule", (of) => [delRule(of("two"))], 1, true],
  [
    "deletes all others",
    (of) => ["two", "three"].map((owner) => delRule(of(owner))),
    1,
    false,
  ],
  ["adds a rule of the owner", () => [addRule("one")], 2, true],
  ["adds another one", () => [addRule("four")], 1, true],
  [
    "adds a rule of the owner and deletes another one",
    (of) => [addRule("one"), delRule(of("two"))],
    2,
    true,
  ],
  [
    "replaces the rule",
    (of) => [delRule(of("one")), addRule("one")],
    1,
    true,
  ],
  [
    "replaces the rule by another owner's",
    (of) => [delRule(of("one")), addRule("four")],
    0,
    true,
  ],
  ["empties the chain", () => [flushChain(TABLE, CHAIN)], 0, false],
  ["deletes the table", () => [delTableOf(TABLE)], 0, false],
  [
    "makes another table of that name",
    () => [
      delTableOf(TABLE),
      addTable(TABLE),
      ...CHAINS.slice(0, -3),
      ...["two", "one", "three"].map((owner) => addRule(owner)),
    ],
    1,
    true,
  ],
  [
    "makes the chain anew",
    () => [
      flushChain(TABLE, OTHER),
      flushChain(TABLE, CHAIN),
      delChainOf(TABLE, CHAIN),
      addChain(TABLE, CHAIN),
      addRule("one"),
    ],
    1,
    false,
  ],
  [
    "refers to the chain",
    () => [appendRule(TABLE, { chain: OTHER, expressions: [goTo(CHAIN)] })],
    1,
    true,
  ],
];

rootTest(
  "findRules() is right, whatever other programs do",
  needsInetRules,
  async (t) => {
    await eachRow(t, FOREIGN_RULES, ([, plan, ones, hasOthers]) => {
      using fixture = new Fixture();
      assertEquals(findRules(fixture.current, "one"), [["one rule"], true]);
      fixture.change(plan);
      for (let i = 0; i < 2; i++) {
        assertEquals(findRules(fixture.current, "one"), [
          Array.from({ length: ones }, () => "one rule"),
          hasOthers,
        ]);
      }
    }, ([name]) => name);
  },
);

rootTest(
  "tryOut() of a probe is remembered only where it was accepted",
  needsInetRules,
  () => {
    using state = new Fixture();
    const { ours, theirs } = state;
    const refused = [delChainOf(TABLE, "none")];
    assertThrows(() => ours.tryOut(refused, "probe"), NetlinkError);
    ours.tryOut([addTable(TABLE)], "probe");
    ours.tryOut(refused, "probe");
    for (const nftables of [ours, theirs]) {
      assertThrows(() => nftables.tryOut(refused, "another"), NetlinkError);
      assertThrows(() => nftables.tryOut(refused), NetlinkError);
    }
  },
);

rootTest(
  "findRules() is right after a chain got another name",
  needsInetRules,
  () => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    using _kept = Nftables.keepOpen(host.path);
    using ours = Nftables.open(host.path);
    ours.commit(SKELETON);
    const find = (): Found => {
      ours.generation();
      return findRules(ours, "one");
    };
    const rename = (from: string, to: string): string =>
      runIn(host, "nft", "rename", "chain", "inet", TABLE.name, from, to);
    assertEquals(find(), [["one rule"], true]);
    rename(CHAIN, "away");
    assertEquals(find(), [[], false]);
    rename("away", CHAIN);
    assertEquals(find(), [["one rule"], true]);
  },
);

const ONE = "one owns 1", TWO = "two owns 2";

/** What another program does; then the elements of `one`, those of key 2, and whether there are others. */
const FOREIGN_ELEMENTS: readonly [
  name: string,
  changes: readonly Change[],
  ones: readonly string[],
  seconds: readonly string[],
  hasOthers: boolean,
][] = [
  ["nothing", [], [ONE], [TWO], true],
  ["changes another table", [addTable(OTHER_TABLE)], [ONE], [TWO], true],
  ["deletes the element", [del(1)], [], [TWO], true],
  ["deletes another one", [del(2)], [ONE], [], true],
  ["deletes all others", [del(2), del(3)], [ONE], [], false],
  [
    "deletes all",
    [delElementsOf(
      TABLE,
      SET.name,
      [1, 2, 3].map((one) => elementOf(one, "")),
    )],
    [],
    [],
    false,
  ],
  ["adds one of the owner", [add(4, "one")], [ONE, "one owns 4"], [TWO], true],
  ["adds another one", [add(4, "four")], [ONE], [TWO], true],
  ["adds an existing one", [add(1, "four")], [ONE], [TWO], true],
  ["gives it to another owner", [del(1), add(1, "four")], [], [TWO], true],
  [
    "gives the owner another one instead",
    [del(1), add(4, "one")],
    ["one owns 4"],
    [TWO],
    true,
  ],
  [
    "gives a key to another owner",
    [del(2), add(2, "four")],
    [ONE],
    ["four owns 2"],
    true,
  ],
  [
    "makes the set anew",
    [
      delSetOf(TABLE, SET.name),
      addSet(TABLE, SET),
      add(1, "four"),
      add(2, "one"),
      add(3, "three"),
    ],
    ["one owns 2"],
    ["one owns 2"],
    true,
  ],
  ["deletes the table", [delTableOf(TABLE)], [], [], false],
];

rootTest(
  "findElements() is right, whatever other programs do",
  needsInetRules,
  async (t) => {
    await eachRow(t, FOREIGN_ELEMENTS, ([, changes, ones, seconds, others]) => {
      using fixture = new Fixture();
      assertEquals(findElements(fixture.current, "one"), [[ONE], true]);
      fixture.change(() => changes);
      for (let i = 0; i < 2; i++) {
        const { current } = fixture;
        assertEquals(findElements(current, "one"), [[...ones], others]);
        assertEquals(findElements(current, keyOf(2))[0], [...seconds]);
      }
    }, ([name]) => name);
  },
);

rootTest(
  "chains and sets are listed once, while other programs change them, too",
  needsInetRules,
  () => {
    using fixture = new Fixture();
    const { ours, theirs } = fixture;
    const lists = countLists(() => {
      for (let i = 10; i < 30; i++) {
        theirs.commit([addTable(OTHER_TABLE)]);
        theirs.commit([
          delTableOf(OTHER_TABLE),
          addRule("their"),
          add(i, "their"),
        ]);
        ours.commit([addRule("our"), addRule("our"), add(i + 100, "our")]);
        const { rules } = fixture.current
          .findRules(TABLE, CHAIN, ownerOf, "our");
        assertEquals(rules.map(ownerOf), ["our", "our"]);
        assertEquals(findElements(ours, "our"), [
          [`our owns ${i + 100}`],
          true,
        ]);
        assertEquals(findRules(ours, "their")[0].length, i - 9);
        assertEquals(findElements(ours, "their")[0].length, i - 9);
        ours.commit(
          [...rules.map(({ handle }) => delRule(handle)), del(i + 100)],
          ours.generation(),
        );
        assertEquals(findRules(fixture.current, "our"), [[], true]);
        assertEquals(findElements(ours, "our"), [[], true]);
      }
    });
    // Of the chain, and twice of the set: two lists of it must agree.
    assert(lists <= 3, `${lists} lists`);
  },
);

rootTest(
  "chains and sets are listed again after more changes than can be noted",
  needsInetRules,
  () => {
    using fixture = new Fixture();
    const { theirs } = fixture;
    assertEquals(findRules(fixture.current, "one"), [["one rule"], true]);
    assertEquals(findElements(fixture.current, "one"), [[ONE], true]);
    for (let i = 0; i < 3; i++) {
      const many = Array.from({ length: 4000 }, () => addRule("their"));
      theirs.commit([addChain(TABLE, CHAIN), addRule("one"), ...many]);
      theirs.commit([add(i + 10, "one")]);
      assertEquals(
        findRules(fixture.current, "one")[0].length,
        i + 2,
      );
      assertEquals(
        findRules(fixture.current, "their")[0].length,
        4000 * (i + 1),
      );
      assertEquals(findElements(fixture.current, "one")[0].length, i + 2);
    }
  },
);

rootTest(
  "a refused commit has chains and sets read again",
  needsInetRules,
  () => {
    using fixture = new Fixture();
    const lists = countLists(() => {
      assertEquals(findRules(fixture.current, "one"), [["one rule"], true]);
      assertThrows(() => fixture.ours.commit([delRule(12345n)]), NetlinkError);
      assertEquals(findRules(fixture.current, "one"), [["one rule"], true]);
    });
    assertEquals(lists, 2);
  },
);

/** Numbers that look random, the same ones in each run. */
function* numbers(seed: number): Generator<number> {
  for (let state = seed;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state >>> 8;
  }
}

rootTest(
  "what is known equals what the kernel lists, after any changes of any program",
  needsInetRules,
  () => {
    const owners = ["one", "two", "three", "four"];
    for (let seed = 1; seed <= 20; seed++) {
      using fixture = new Fixture();
      const { ours, theirs } = fixture;
      const random = numbers(seed);
      const draw = (count: number): number => random.next().value % count;
      const plan = (): Change[] => {
        const rules = theirs.listRules(TABLE, CHAIN);
        const rule = rules[draw(rules.length + 1)];
        const keys = theirs.listElements(TABLE, SET.name);
        const element = keys[draw(keys.length + 1)];
        const owner = owners[draw(owners.length)] ?? "";
        const existing = [
          addTable(TABLE),
          addChain(TABLE, CHAIN),
          addSet(TABLE, SET),
        ];
        const choices: Change[][] = [
          [addRule(owner), addRule(owner)],
          [addRule(owner)],
          rule === undefined ? [] : [delRule(rule.handle), addRule(owner)],
          rule === undefined ? [] : [delRule(rule.handle)],
          [add(draw(300), owner), addTable(OTHER_TABLE)],
          element === undefined
            ? []
            : [delElementsOf(TABLE, SET.name, [element])],
          element === undefined ? [] : [
            delElementsOf(TABLE, SET.name, [element]),
            addElements(TABLE, SET.name, [{
              ...element,
              comment: `${owner} owns`,
            }]),
          ],
          [
            delSetOf(TABLE, SET.name),
            addSet(TABLE, SET),
            add(draw(300), owner),
          ],
          [flushChain(TABLE, CHAIN), addRule(owner)],
          [delTableOf(TABLE), ...SKELETON],
        ];
        // The last ones are rare, so that the rest has something to change.
        const at = draw(40);
        const chosen = at < 3 ? choices[7 + at] : choices[at % 7];
        return [...existing, ...chosen ?? []];
      };
      for (let step = 0; step < 60; step++) {
        (draw(3) === 0 ? ours : theirs).commit(plan());
        if (draw(2) === 0) continue;
        const { current } = fixture;
        const owner = owners[draw(owners.length)] ?? "";
        assertEquals(findRules(current, owner), findRules(theirs, owner));
        assertEquals(findElements(current, owner), findElements(theirs, owner));
        const key = keyOf(draw(300));
        assertEquals(findElements(current, key), findElements(theirs, key));
      }
    }
  },
);

rootTest(
  "what is known equals what the kernel lists, while another program commits",
  needsInetRules,
  async () => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    using _kept = Nftables.keepOpen(host.path);
    using ours = Nftables.open(host.path);
    using theirs = Nftables.open(host.path.replace("/proc/", "/proc/./"));
    theirs.commit(SKELETON);
    const lines = Array.from({ length: 200 }, (_, index) => [
      `add rule inet test ${CHAIN} return comment "one rule"`,
      `add element inet test ${SET.name} { 10.9.9.${index} comment "one owns" }`,
    ]).flat().join("\n");
    const script = `while nft -f - <<END; do
${lines}
END
nft flush chain inet test ${CHAIN}; nft flush set inet test ${SET.name}; done`;
    const program = new Deno.Command("sh", {
      args: ["-c", script],
      stderr: "null",
    });
    const committing = inNetns(host, () => program.spawn());
    const first = theirs.generation();
    let compared = 0, isPaused = false;
    try {
      await eventually("it is compared during 30 commits", () => {
        // On a busy machine each comparison may take longer than it pauses by itself.
        isPaused = !isPaused;
        committing.kill(isPaused ? "SIGSTOP" : "SIGCONT");
        for (let i = 0; i < 20; i++) {
          const generation = ours.generation();
          const known = [findRules(ours, "one"), findElements(ours, "one")];
          const listed = [
            findRules(theirs, "one"),
            findElements(theirs, "one"),
          ];
          if (theirs.generation() !== generation) continue;
          assertEquals(known, listed);
          compared++;
        }
        return compared >= 100 && theirs.generation() > first + 30;
      });
    } finally {
      theirs.commit([delTableOf(TABLE)]);
      if (isPaused) committing.kill("SIGCONT");
      await committing.status;
    }
  },
);

rootTest(
  "findRules() lists the chain each time in a process that ends",
  needsInetRules,
  () => {
    using hosts = TestHosts.create();
    using nftables = Nftables.open(hosts.host.path);
    assertEquals(findRules(nftables, "one"), [[], false]);
    nftables.commit(SKELETON);
    const lists = countLists(() => {
      assertEquals(findRules(nftables, "one"), [["one rule"], true]);
      assertEquals(findRules(nftables, "none"), [[], true]);
    });
    assertEquals(lists, 2);
  },
);
