import { assertEquals } from "@std/assert";
import { CallHistory } from "./call_history.ts";
import { DECLINE_REASONS } from "./decline_reasons.ts";

Deno.test("CallHistory counts calls by outcome", () => {
  const history = new CallHistory();
  assertEquals(history.describe(), {
    done: 0,
    failed: 0,
    left: 0,
    recent: { calls: 0, left: 0 },
    reasons: [],
  });
  history.addDeclined("another build", "ptp ADD");
  history.addDeclined("another build", "bridge DEL");
  for (const code of [0, 11, 0]) history.addDone({ code });
  history.addDone({ code: -1 });
  const { reasons, ...counts } = history.describe();
  assertEquals(counts, {
    done: 3,
    failed: 1,
    left: 2,
    recent: { calls: 5, left: 2 },
  });
  const [row] = reasons;
  assertEquals({ ...row, lastAt: "" }, {
    reason: "another build",
    advice: DECLINE_REASONS["another build"],
    count: 2,
    recent: 2,
    lastAt: "",
    lastCall: "bridge DEL",
  });
});

Deno.test("CallHistory separates the last 100 calls from all calls", () => {
  const history = new CallHistory();
  for (let call = 0; call < 30; call++) history.addDeclined("another umask");
  for (let call = 0; call < 90; call++) history.addDone({ code: 0 });
  const { left, recent, reasons } = history.describe();
  assertEquals([left, recent], [30, { calls: 100, left: 10 }]);
  assertEquals(reasons.map(({ count, recent }) => [count, recent]), [[30, 10]]);
});

Deno.test("each reason names an action of the operator", async (t) => {
  for (const [reason, advice] of Object.entries(DECLINE_REASONS)) {
    await t.step(reason, () => {
      // Labels of metrics: alerts name them.
      assertEquals(/^[\w ]{5,40}$/.test(reason), true);
      assertEquals(/^\S.{30,}[^.]$/.test(advice), true, advice);
    });
  }
});
