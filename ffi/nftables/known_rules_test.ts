import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { observeNetlink } from "../netlink/observer.ts";
import {
  addChain,
  addTable,
  appendRule,
  type Change,
  delRuleOf,
  delTableOf,
  flushChain,
  type Table,
} from "./change.ts";
import { decide, goTo } from "./expression.ts";
import { Nftables, type Rule } from "./mod.ts";

const TABLE: Table = { family: "inet", name: "test" };
const CHAIN = "checks", OTHER = "other";

const commentOf = ({ comment }: Rule): string => comment;

function addition(comment: string): Change {
  return appendRule(TABLE, {
    chain: CHAIN,
    expressions: [decide("return")],
    comment,
  });
}

/** A chain with a rule of each of three owners, and a reference to it. */
const SKELETON: readonly Change[] = [
  addTable(TABLE),
  addChain(TABLE, CHAIN),
  addChain(TABLE, OTHER),
  appendRule(TABLE, { chain: OTHER, expressions: [goTo(CHAIN)] }),
  ...["one", "two", "three"].map(addition),
];

/** A process that stays, and another one that does not tell it what it does. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts: TestHosts = this.#stack.use(TestHosts.create());
  readonly ours: Nftables;

  constructor() {
    const { path } = this.hosts.host;
    this.#stack.use(Nftables.keepOpen(path));
    this.ours = this.#stack.use(Nftables.open(path));
    this.ours.commit(SKELETON);
  }

  find(owner: string): { comments: string[]; hasOthers: boolean } {
    // As each call does first.
    this.ours.generation();
    const { rules, hasOthers } = this.ours
      .findRules(TABLE, CHAIN, commentOf, owner);
    return { comments: rules.map(commentOf), hasOthers };
  }

  /** Counts the lists that are asked for meanwhile. */
  countLists(work: () => void): number {
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

  /** Changes the table behind the back of the process that stays. */
  change(plan: (handleOf: (owner: string) => bigint) => Change[]): void {
    // Kept by its path: another one is another program's.
    using nftables = Nftables.open(
      this.hosts.host.path.replace("/proc/", "/proc/./"),
    );
    const rules = nftables.listRules(TABLE, CHAIN);
    const handleOf = (owner: string): bigint =>
      rules.find(({ comment }) => comment === owner)?.handle ?? 0n;
    nftables.commit(plan(handleOf));
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** Deletes the rule of an owner. */
const del = (handle: bigint): Change => delRuleOf(TABLE, CHAIN, handle);

/** What another program does; then the rules of `one`, and whether there are others. */
const FOREIGN: readonly [
  name: string,
  plan: (handleOf: (owner: string) => bigint) => Change[],
  ones: number,
  hasOthers: boolean,
][] = [
  ["nothing", () => [], 1, true],
  ["deletes the rule", (of) => [del(of("one"))], 0, true],
  ["deletes another rule", (of) => [del(of("two"))], 1, true],
  [
    "deletes all others",
    (of) => ["two", "three"].map((owner) => del(of(owner))),
    1,
    false,
  ],
  ["adds a rule of the owner", () => [addition("one")], 2, true],
  ["adds another one", () => [addition("four")], 1, true],
  [
    "adds a rule of the owner and deletes another one",
    (of) => [addition("one"), del(of("two"))],
    2,
    true,
  ],
  [
    "replaces the rule",
    (of) => [del(of("one")), addition("one")],
    1,
    true,
  ],
  [
    "replaces the rule by another owner's",
    (of) => [del(of("one")), addition("four")],
    0,
    true,
  ],
  ["empties the chain", () => [flushChain(TABLE, CHAIN)], 0, false],
  ["deletes the table", () => [delTableOf(TABLE)], 0, false],
  [
    "makes another table of that name",
    () => [
      delTableOf(TABLE),
      ...SKELETON.slice(0, -3),
      ...["two", "one", "three"].map(addition),
    ],
    1,
    true,
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
    await eachRow(t, FOREIGN, ([, plan, ones, hasOthers]) => {
      using fixture = new Fixture();
      assertEquals(fixture.find("one"), { comments: ["one"], hasOthers: true });
      fixture.change(plan);
      for (let i = 0; i < 2; i++) {
        assertEquals(fixture.find("one"), {
          comments: Array.from({ length: ones }, () => "one"),
          hasOthers,
        });
      }
    }, ([name]) => name);
  },
);

rootTest(
  "findRules() lists a chain once, and then knows of own changes",
  needsInetRules,
  () => {
    using fixture = new Fixture();
    const { ours } = fixture;
    const lists = fixture.countLists(() => {
      fixture.find("one");
      for (let i = 0; i < 20; i++) {
        // As commitUnlessDisturbed() does: so it knows that nobody came between.
        ours.commit(
          [addition(`new${i}`), addition(`new${i}`)],
          ours.generation(),
        );
        const { rules } = ours.findRules(TABLE, CHAIN, commentOf, `new${i}`);
        assertEquals(rules.length, 2);
        ours.commit(
          rules.slice(1).map(({ handle }) => del(handle)),
          ours.generation(),
        );
        assertEquals(fixture.find(`new${i}`).comments, [`new${i}`]);
      }
      assertEquals(fixture.find("none"), { comments: [], hasOthers: true });
    });
    assertEquals(lists, 1);
  },
);

rootTest(
  "findRules() lists the chain each time in a process that ends",
  needsInetRules,
  () => {
    using hosts = TestHosts.create();
    using nftables = Nftables.open(hosts.host.path);
    const find = (owner: string): [number, boolean] => {
      const { rules, hasOthers } = nftables
        .findRules(TABLE, CHAIN, commentOf, owner);
      return [rules.length, hasOthers];
    };
    assertEquals(find("one"), [0, false]);
    nftables.commit(SKELETON);
    assertEquals(find("one"), [1, true]);
    assertEquals(find("none"), [0, true]);
  },
);
