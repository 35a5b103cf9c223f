import { assertEquals } from "@std/assert";
import { type ReportedLeftover } from "./tool_question.ts";
import { answerTools } from "./describe.ts";
import type { Orphan } from "./leftovers.ts";
import { metadata } from "../../plugins/tuning/metadata.ts";
import { tuning } from "../../plugins/tuning/plugin.ts";

Deno.test("a leftover is told with its claim, or its own reason", async () => {
  const orphan = (why: string | undefined): Orphan => ({
    kind: "record",
    where: "/x",
    container: "c1",
    network: "n",
    why: why ?? "",
    remove: () => Promise.resolve(),
  });
  const { keys: _, needs: __, ...own } = metadata;
  const answer = await answerTools(
    { ask: "leftovers", hostNetns: "/proc/self/ns/net", path: "", confs: [] },
    tuning,
    {
      metadata: own,
      text: "",
      leftovers: {
        finders: [({ evidence }) => [
          orphan(evidence.findReason({ container: "c1", since: new Date(5) })),
          orphan("claim: its owner gave it up"),
        ]],
      },
    },
  ) as { readonly leftovers: readonly ReportedLeftover[] };
  assertEquals(answer.leftovers.map(({ claim, why }) => ({ claim, why })), [
    { claim: { container: "c1", since: 5 }, why: "" },
    { claim: undefined, why: "claim: its owner gave it up" },
  ]);
});
