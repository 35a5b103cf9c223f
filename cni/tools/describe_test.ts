import { assertEquals } from "@std/assert";
import { type ToldLeftover } from "./tool_question.ts";
import { answerTools } from "./describe.ts";
import type { Orphan } from "./leftovers.ts";
import { facts } from "../../plugins/tuning/facts.ts";
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
  const { keys: _, needs: __, ...about } = facts;
  const answer = await answerTools(
    { ask: "leftovers", hostNetns: "/proc/self/ns/net", path: "", confs: [] },
    tuning,
    {
      about,
      text: "",
      leftovers: {
        finders: [({ evidence }) => [
          orphan(evidence.findProof({ container: "c1", since: new Date(5) })),
          orphan("claim: its owner gave it up"),
        ]],
      },
    },
  ) as { readonly leftovers: readonly ToldLeftover[] };
  assertEquals(answer.leftovers.map(({ claim, why }) => ({ claim, why })), [
    { claim: { container: "c1", since: 5 }, why: "" },
    { claim: undefined, why: "claim: its owner gave it up" },
  ]);
});
