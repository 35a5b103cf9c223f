import { assertEquals } from "@std/assert";
import type { Bytes } from "../../net/bytes.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { observeNetlink } from "../netlink/observer.ts";
import {
  addElements,
  addSet,
  addTable,
  type Change,
  delElementsOf,
  delSetOf,
  delTableOf,
  type Element,
  type NewSet,
  type Table,
} from "./change.ts";
import { Nftables } from "./mod.ts";

const TABLE: Table = { family: "inet", name: "test" };
const SET: NewSet = { name: "addresses", key: "ipv4_addr" };

const keyOf = (number: number): Bytes => Uint8Array.of(10, 1, 0, number);

function elementOf(number: number, owner: string): Element {
  return { key: keyOf(number), comment: `${owner} owns ${number}` };
}

const add = (number: number, owner: string): Change =>
  addElements(TABLE, SET.name, [elementOf(number, owner)]);
const del = (number: number): Change =>
  delElementsOf(TABLE, SET.name, [{ key: keyOf(number) }]);

const SKELETON: readonly Change[] = [
  addTable(TABLE),
  addSet(TABLE, SET),
  add(1, "one"),
  add(2, "two"),
  add(3, "three"),
];

/** A process that stays, and another one that does not tell it what it does. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #path: string;
  readonly ours: Nftables;

  constructor() {
    const { path } = this.#stack.use(TestHosts.create()).host;
    this.#path = path;
    this.#stack.use(Nftables.keepOpen(path));
    this.ours = this.#stack.use(Nftables.open(path));
    this.ours.commit(SKELETON);
  }

  /** Finds the elements of an owner, or with a key. */
  find(wanted: string | Bytes): { comments: string[]; hasOthers: boolean } {
    // As each call does first.
    this.ours.generation();
    const part = typeof wanted === "string"
      ? new TextEncoder().encode(`${wanted} owns`)
      : wanted;
    const { elements, hasOthers } = this.ours
      .findElements(TABLE, SET.name, [part]);
    const comments = elements.map(({ comment }) => comment).sort();
    return { comments, hasOthers };
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
  change(changes: readonly Change[]): void {
    // Kept by its path: another one is another program's.
    using nftables = Nftables.open(this.#path.replace("/proc/", "/proc/./"));
    nftables.commit(changes);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

const OTHER_TABLE: Table = { family: "ip", name: "other" };
const ONE = "one owns 1", TWO = "two owns 2";

/** What another program does; then the elements of `one`, those of key 2, and whether there are others. */
const FOREIGN: readonly [
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
  ["adds one of the owner", [add(4, "one")], [ONE, "one owns 4"], [TWO], true],
  ["adds another one", [add(4, "four")], [ONE], [TWO], true],
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
    await eachRow(t, FOREIGN, ([, changes, ones, seconds, hasOthers]) => {
      using fixture = new Fixture();
      assertEquals(fixture.find("one"), { comments: [ONE], hasOthers: true });
      fixture.change(changes);
      for (let i = 0; i < 2; i++) {
        assertEquals(fixture.find("one"), { comments: [...ones], hasOthers });
        assertEquals(fixture.find(keyOf(2)).comments, [...seconds]);
      }
    }, ([name]) => name);
  },
);

rootTest(
  "findElements() asks for a key that another program has taken from nobody",
  needsInetRules,
  () => {
    using fixture = new Fixture();
    assertEquals(fixture.find(keyOf(4)).comments, []);
    // As many elements as before.
    fixture.change([del(3), add(4, "four")]);
    assertEquals(fixture.find(keyOf(4)).comments, ["four owns 4"]);
  },
);

rootTest(
  "findElements() lists a set once, and then knows of own changes",
  needsInetRules,
  () => {
    using fixture = new Fixture();
    const { ours } = fixture;
    const lists = fixture.countLists(() => {
      fixture.find("one");
      for (let i = 10; i < 30; i++) {
        ours.commit([add(i, "new"), add(i + 100, "new")], ours.generation());
        assertEquals(fixture.find("new").comments.length, 2);
        // An existing element keeps its comment.
        ours.commit([add(i, "other")], ours.generation());
        assertEquals(fixture.find("other").comments, []);
        ours.commit([del(i)], ours.generation());
        assertEquals(fixture.find("new").comments, [`new owns ${i + 100}`]);
        ours.commit([del(i + 100)], ours.generation());
        assertEquals(fixture.find("new").comments, []);
      }
      ours.commit([delTableOf(TABLE)], ours.generation());
      assertEquals(fixture.find("one"), { comments: [], hasOthers: false });
      ours.commit(SKELETON, ours.generation());
      assertEquals(fixture.find("one"), { comments: [ONE], hasOthers: true });
    });
    assertEquals(lists, 1);
  },
);
