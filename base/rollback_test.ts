import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { CniError, ErrorCode, toCniError } from "./error.ts";
import { createLog, type Log } from "./log/log.ts";
import { Rollback, type TearDownStep, tryAll } from "./rollback.ts";

/** What happened, in order, and a log that tells it too. */
function witness(): { events: string[]; log: Log } {
  const events: string[] = [];
  return { events, log: createLog({}, (line) => events.push(line.trim())) };
}

/** An operation of two steps; the undo of the second waits. */
async function operate(
  { events, log }: { events: string[]; log: Log },
  end: (rollback: Rollback) => void,
): Promise<void> {
  await using rollback = new Rollback(log);
  rollback.onFailure("undo one", () => void events.push("one undone"));
  rollback.onFailure("undo two", async () => {
    events.push("two began");
    await Promise.resolve();
    events.push("two undone");
  });
  end(rollback);
}

const failure = new CniError(ErrorCode.TryAgainLater, "no address");

Deno.test("Rollback undoes the steps of an operation that fails, last first, one by one", async () => {
  const seen = witness();
  const error = await assertRejects(() =>
    operate(seen, () => {
      throw failure;
    })
  );
  assertStrictEquals(error, failure);
  assertEquals(seen.events, ["two began", "two undone", "one undone"]);
});

Deno.test("Rollback undoes the steps of an operation that forgets to commit", async () => {
  const seen = witness();
  await operate(seen, () => {});
  assertEquals(seen.events, ["two began", "two undone", "one undone"]);
});

Deno.test("Rollback keeps what is committed", async () => {
  const seen = witness();
  await operate(seen, (rollback) => rollback.commit());
  assertEquals(seen.events, []);
});

Deno.test("Rollback undoes what comes after a commit", async () => {
  const seen = witness();
  await operate(seen, (rollback) => {
    rollback.commit();
    rollback.onFailure("undo three", () => void seen.events.push("three"));
  });
  assertEquals(seen.events, ["three"]);
});

Deno.test("Rollback logs an undo that fails and lets the first error through", async () => {
  const seen = witness();
  const error = await assertRejects(() =>
    operate(seen, (rollback) => {
      rollback.onFailure("delete veth0", () => {
        throw new Error("busy", { cause: new Error("EBUSY") });
      });
      rollback.onFailure(
        "release the lease",
        () => Promise.reject(new Error("locked")),
      );
      throw failure;
    })
  );
  assertStrictEquals(error, failure);
  assertEquals(seen.events, [
    'level=error msg="Cannot release the lease" error=locked',
    'level=error msg="Cannot delete veth0" error="busy: EBUSY"',
    "two began",
    "two undone",
    "one undone",
  ]);
});

/** Registers the release of a lease before and after the undo of a link. */
async function lease(
  { events, log }: { events: string[]; log: Log },
  deleteLink: () => void,
): Promise<void> {
  await using rollback = new Rollback(log);
  const release = (): void => void events.push("lease");
  rollback.onFailureLast("release the lease", release);
  rollback.onFailure("delete veth0", deleteLink);
  rollback.onFailureLast("release another lease", release);
}

Deno.test("Rollback undoes last what is registered so", async () => {
  const seen = witness();
  await lease(seen, () => void seen.events.push("link"));
  assertEquals(seen.events, ["link", "lease", "lease"]);
});

Deno.test("Rollback leaves the last steps to DEL if another one fails", async () => {
  const seen = witness();
  await lease(seen, () => {
    throw new Error("busy");
  });
  assertEquals(seen.events, [
    'level=error msg="Cannot delete veth0" error=busy',
  ]);
});

Deno.test("Rollback undoes a step once", async () => {
  const { events, log } = witness();
  const rollback = new Rollback(log);
  rollback.onFailure("undo one", () => void events.push("one undone"));
  await rollback[Symbol.asyncDispose]();
  await rollback[Symbol.asyncDispose]();
  assertEquals(events, ["one undone"]);
});

Deno.test("tryAll() runs every step in order, whatever fails", async () => {
  const { events } = witness();
  await assertRejects(
    () =>
      tryAll([
        ["delete the link", () => {
          events.push("link");
          throw new Error("busy");
        }],
        ["release the lease", async () => {
          await Promise.resolve();
          events.push("lease");
          throw failure;
        }],
        ["remove the rules", () => void events.push("rules")],
        ["remove the rules", () => void events.push("more rules")],
      ]),
    AggregateError,
    "2 steps failed",
  );
  assertEquals(events, ["link", "lease", "rules", "more rules"]);
});

Deno.test("tryAll() leaves out a step that needs one that has failed", async () => {
  const { events } = witness();
  const unlink: TearDownStep = ["delete the link", () => {
    throw failure;
  }];
  const rules: TearDownStep = ["remove the rules", () => {}];
  const lease: TearDownStep = [
    "release the lease",
    () => void events.push("lease"),
    unlink,
  ];
  await assertRejects(() =>
    tryAll([
      unlink,
      rules,
      lease,
      ["forget the lease", () => void events.push("forgotten"), lease],
      ["remove the table", () => void events.push("table"), rules],
    ])
  );
  assertEquals(events, ["table"]);
});

Deno.test("tryAll() returns if nothing fails", async () => {
  await tryAll([["do nothing", () => {}]]);
  await tryAll([]);
});

Deno.test("tryAll() throws errors that name the steps and keep the code", async (t) => {
  const fail = (): never => {
    throw failure;
  };
  await t.step("one failure", async () => {
    const error = await assertRejects(() =>
      tryAll([["do nothing", () => {}], ["release the lease", fail]])
    );
    assertEquals(toCniError(error).toObject("1.1.0"), {
      cniVersion: "1.1.0",
      code: 11,
      msg: "no address",
      details: "Cannot release the lease",
    });
  });
  await t.step("several", async () => {
    const error = await assertRejects(() =>
      tryAll([
        ["delete the link", () => {
          throw new Error("busy");
        }],
        ["release the lease", fail],
      ])
    );
    assertEquals(toCniError(error).toObject("1.1.0"), {
      cniVersion: "1.1.0",
      code: 11,
      msg: "2 steps failed",
      details:
        "Cannot delete the link: busy; Cannot release the lease: no address",
    });
  });
});
