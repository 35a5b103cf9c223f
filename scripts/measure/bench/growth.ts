/**
 * How the times of calls grow with the containers on the node.
 *
 * @module
 */

import type { Row } from "./summary.ts";

/** Formats a table: the median of each contestant's ADD and DEL, and how often that of the first column it is. */
export function formatGrowth(rows: readonly Row[]): string {
  const whole = rows.filter(({ step, containers }) =>
    containers !== undefined && ["ADD", "DEL"].includes(step)
  );
  const levels = [...new Set(whole.map(({ containers }) => containers ?? 0))];
  const lines = ["ADD", "DEL"].flatMap((step) => {
    const ofStep = whole.filter((one) => one.step === step);
    const all = [...new Set(ofStep.map(({ who }) => who))];
    return all.map((who) => {
      const medians = levels.map((level) =>
        ofStep.find((one) => one.who === who && one.containers === level)
          ?.wallMs.median
      );
      const [first] = medians;
      const cells = medians.map((median) => {
        if (median === undefined) return "";
        const ms = median.toFixed(1);
        return first === undefined || median === first
          ? ms
          : `${ms} (${(median / first).toFixed(2)})`;
      });
      return [step, who, ...cells];
    });
  });
  const head = ["step", "who", ...levels.map(String)];
  const rule = head.map((_, at) => at < 2 ? "---" : "--:");
  return [head, rule, ...lines]
    .map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}
