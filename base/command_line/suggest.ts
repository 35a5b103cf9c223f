/**
 * Suggestions for mistyped words.
 *
 * @module
 */

/**
 * Finds the candidate that is closest to a mistyped word.
 *
 * @returns Undefined if no candidate is close: more than a third of the word would
 * have to change, and neither word is a prefix of the other
 */
export function findNearest(
  word: string,
  candidates: readonly string[],
): string | undefined {
  const typed = word.toLowerCase();
  const [best] = candidates
    .map((candidate) => ({
      candidate,
      distance: rate(typed, candidate.toLowerCase()),
      // A prefix is more likely than a different short word.
      edits: candidate.toLowerCase().startsWith(typed)
        ? 0
        : countEdits(typed, candidate.toLowerCase()),
    }))
    .filter(({ distance }) => distance <= Math.max(1, typed.length / 3))
    .sort((left, right) =>
      left.distance - right.distance || left.edits - right.edits
    );
  return best?.candidate;
}

/**
 * Suggests a similar word at the end of a message.
 *
 * @returns "" if no candidate is close, or the word itself is a candidate
 */
export function didYouMean(word: string, known: readonly string[]): string {
  const nearest = findNearest(word, known);
  return nearest === undefined || nearest === word
    ? ""
    : `; did you mean "${nearest}"?`;
}

/** Rates a difference. A prefix counts like a single wrong letter. */
function rate(typed: string, candidate: string): number {
  const isBeginning = typed !== "" &&
    (candidate.startsWith(typed) || typed.startsWith(candidate));
  const edits = countEdits(typed, candidate);
  return isBeginning ? Math.min(edits, 1) : edits;
}

/** Counts the letters to insert, delete, replace or swap with the next (optimal string alignment). */
export function countEdits(left: string, right: string): number {
  const rows = [Array.from({ length: right.length + 1 }, (_, at) => at)];
  const at = (row: number, column: number): number =>
    rows[row]?.[column] ?? Infinity;
  for (let i = 1; i <= left.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= right.length; j++) {
      const isSame = left[i - 1] === right[j - 1];
      const isSwap = left[i - 1] === right[j - 2] &&
        left[i - 2] === right[j - 1];
      row.push(Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + (isSame ? 0 : 1),
        i > 1 && j > 1 && isSwap ? at(i - 2, j - 2) + 1 : Infinity,
      ));
    }
  }
  return at(left.length, right.length);
}
