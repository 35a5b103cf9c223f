import { assertEquals } from "@std/assert";
import { BOX, PLACES } from "./svg.ts";
import type { Party } from "./trial.ts";

/** Pairs that a trial has lines between. */
const PAIRS: readonly (readonly [Party, Party])[] = [
  ["A", "B"],
  ...(["gateway", "node", "outside", "name"] as const).flatMap((to) =>
    [["A", to], ["B", to]] as const
  ),
];

/** Reports whether a line meets a box, by points along the line. */
function meets([from, to]: readonly [Party, Party], party: Party): boolean {
  const [[x1, y1], [x2, y2], [x, y]] = [
    PLACES[from],
    PLACES[to],
    PLACES[party],
  ];
  return Array.from({ length: 1001 }, (_, at) => at / 1000).some((t) =>
    Math.abs(x1 + t * (x2 - x1) - x) <= BOX.width / 2 &&
    Math.abs(y1 + t * (y2 - y1) - y) <= BOX.height / 2
  );
}

Deno.test("no line in the diagram of --try crosses the box of a third container", () => {
  const parties = Object.keys(PLACES) as Party[];
  const hidden = PAIRS.flatMap((pair) =>
    parties.filter((party) => !pair.includes(party) && meets(pair, party))
      .map((party) => `${pair.join(" to ")}: behind ${party}`)
  );
  assertEquals(hidden, []);
});
