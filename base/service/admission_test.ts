import { assertEquals } from "@std/assert";
import { Admission, type Admitted } from "./admission.ts";

/** A connection that leaves when it is refused. */
class Connection implements Admitted {
  readonly #admission: Admission;
  bytes = 0;
  isBegun = false;
  refused = "";

  constructor(admission: Admission, pid: number) {
    this.#admission = admission;
    admission.enter(this, pid);
  }

  receive(bytes: number): void {
    this.bytes += bytes;
    this.#admission.count(this);
  }

  refuse(reason: string): void {
    this.refused = reason;
    this.#admission.leave(this);
  }
}

function refusals(connections: readonly Connection[]): string[] {
  return connections.map(({ refused }) => refused);
}

Deno.test("Admission refuses the oldest of a process that has too many", () => {
  const admission = new Admission({ maxOfProcess: 2 });
  const other = new Connection(admission, 2);
  const begun = new Connection(admission, 1);
  begun.isBegun = true;
  const mine = [1, 1, 1].map((pid) => new Connection(admission, pid));
  assertEquals(refusals([other, begun, ...mine]), [
    "",
    "",
    "too many connections",
    "",
    "",
  ]);
});

Deno.test("Admission refuses connections of the process with most if there are too many", () => {
  const admission = new Admission({ maxConnections: 4 });
  const some = [1, 2, 2, 2, 3].map((pid) => new Connection(admission, pid));
  assertEquals(refusals(some), ["", "too many connections", "", "", ""]);
  assertEquals(admission.makeRoom(), true);
  for (const connection of some) connection.isBegun = true;
  assertEquals(admission.makeRoom(), false);
});

Deno.test("Admission refuses the longest request if all are too long", () => {
  const admission = new Admission({ maxBytes: 100 });
  const [long, short, last] = [1, 2, 3]
    .map((pid) => new Connection(admission, pid));
  long?.receive(60);
  short?.receive(30);
  last?.receive(20);
  const all = [long, short, last].filter((it) => it !== undefined);
  assertEquals(refusals(all), ["too many bytes of requests", "", ""]);
  // Its bytes are there for others.
  last?.receive(50);
  assertEquals(refusals(all).slice(1), ["", ""]);
  // What has begun keeps them, so whoever wants more is refused.
  for (const connection of all) connection.isBegun = true;
  const late = new Connection(admission, 4);
  late.receive(1);
  assertEquals(late.refused, "too many bytes of requests");
});
