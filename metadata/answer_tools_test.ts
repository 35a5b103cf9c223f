import { assertEquals } from "@std/assert";
import { type ReportedOrphan } from "./tool_question.ts";
import { answerTools } from "./answer_tools.ts";
import type { Orphan, Reason } from "./orphans.ts";
import { metadata } from "../plugins/tuning/metadata.ts";
import { tuning } from "../plugins/tuning/plugin.ts";

Deno.test("an orphan is reported with its owner, or its own reason", async () => {
  const orphan = (reason: Reason | undefined): Orphan => ({
    kind: "record",
    where: "/x",
    container: "c1",
    network: "n",
    ...reason ?? { why: "" },
    remove: () => Promise.resolve(),
  });
  const { keys: _, needs: __, ...own } = metadata;
  const answer = await answerTools(
    { ask: "leftovers", hostNetns: "/proc/self/ns/net", path: "", confs: [] },
    tuning,
    {
      metadata: own,
      text: "",
      orphans: {
        finders: [({ evidence }) => [
          orphan(evidence.findReason({ container: "c1", since: new Date(5) })),
          orphan({ why: "its owner gave it up" }),
        ]],
      },
    },
  ) as { readonly leftovers: readonly ReportedOrphan[] };
  assertEquals(answer.leftovers.map(({ claim, why }) => ({ claim, why })), [
    { claim: { container: "c1", since: 5 }, why: "" },
    { claim: undefined, why: "its owner gave it up" },
  ]);
});
