import { assertEquals } from "@std/assert";
import { diagnose, fixAll } from "./diagnose.ts";
import { error, type Finding } from "./finding.ts";
import { createNode } from "./testing/node.ts";

const LOST = "packets end at the bridge";

/** Messages of other errors, and whether they may be the cause of a loss. */
const others: [message: string, isCause: boolean][] = [
  ["default/web eth0: its address is gone", true],
  ['the port of "default/web eth0" is down', true],
  ["nothing answers default/web eth0", true],
  ["default/web eth01: its address is gone", false],
  ["default/web eth0-2 is down", false],
  ["default/web eth0.5 is down", false],
  ["my-default/web eth0: its address is gone", false],
];

Deno.test("diagnose() omits a vague finding only if an error names its container", async () => {
  using node = createNode({});
  for (const [message, isCause] of others) {
    const findings: Finding[] = [
      error(message, ""),
      error(LOST, "", { isSymptom: true, about: [["default/web eth0"]] }),
    ];
    const page = { effect: "", cause: "", howToInspect: "", howToFix: "" };
    const check = { code: "CNI9999", name: "any", finds: "", ...page };
    const diagnosis = await diagnose(node, () => {}, [
      { ...check, run: () => findings },
    ]);
    assertEquals(
      diagnosis.findings.map((one) => one.message),
      isCause ? [message] : [message, LOST],
    );
  }
});

Deno.test("fixAll() fixes nothing after an interruption", async () => {
  const interrupted = new AbortController();
  const done: string[] = [];
  const found = ["first", "second"].map((check) => ({
    ...error("", "", {
      fix: {
        did: check,
        run(): void {
          done.push(check);
          interrupted.abort();
        },
      },
    }),
    check,
    code: "CNI9999",
  }));
  const { signal } = interrupted;
  const fixed = await fixAll(found, signal);
  assertEquals(fixed.map(({ did }) => did), ["first"]);
  assertEquals(await fixAll(found, signal), []);
  assertEquals(done, ["first"]);
});
