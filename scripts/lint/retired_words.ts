/**
 * Lint rule `cni/retired-words`: comments, texts and pages use one word for a
 * thing, the word of the glossary (docs/concepts.md, ARCHITECTURE.md).
 *
 * @module
 */

import { projectPath } from "./project_files.ts";

/** Words that were replaced, and what to use instead. */
const RETIRED: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\bleft-?overs?\b/i, '"orphan"'],
  [/\bstranded\b/i, '"in the wrong namespace"'],
  [/\bmend(?:s|ed|ing)?\b/i, '"repair", or "fix" for `cni doctor`'],
  [/(?<!\bon )\bdemands?\b/i, '"requirement"'],
  [/\bcontestants?\b/i, '"candidate"'],
  [/\b(?:netns|namespace) number\b/i, '"nsid"'],
  [/\bworld\b(?!-)/i, '"environment", or name the namespaces'],
  [/\bdoomed\b/i, '"to delete"'],
  [/\bnot mine\b/i, '"declined"'],
];

/** Files that need a retired word, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  "scripts/lint/retired_words.ts": "the list",
  "scripts/lint/retired_words_test.ts": "its test",
};

/** Returns a message for each retired word in a text of a file. */
export function findRetiredWords(path: string, text: string): string[] {
  if (path in EXCEPTIONS) return [];
  const line = text.replace(/`[^`]*`/g, "").replace(/\s+(?:\* )?/g, " ");
  return RETIRED.flatMap(([word, instead]) => {
    const [found] = word.exec(line) ?? [];
    return found === undefined ? [] : [`Not "${found}": use ${instead}`];
  });
}

/** Returns a message for each retired word in the prose of a page. */
export function findRetiredWordsOfPage(path: string, page: string): string[] {
  return findRetiredWords(path, page.replace(/^ *```[^]*?^ *```/gm, ""));
}

/** Reports retired words in comments and in strings of several words. */
export const retiredWords: Deno.lint.Rule = {
  create(context): Deno.lint.LintVisitor {
    const path = projectPath(context.filename);
    if (path === undefined) return {};

    function check(text: string, range: Deno.lint.Range): void {
      for (const message of findRetiredWords(path ?? "", text)) {
        context.report({ range, message });
      }
    }

    return {
      Program(): void {
        for (const { value, range } of context.sourceCode.getAllComments()) {
          check(value, range);
        }
      },
      Literal({ value, range }): void {
        // A string without a space is a key or a name, and may be kept.
        if (typeof value === "string" && value.includes(" ")) {
          check(value, range);
        }
      },
      TemplateLiteral({ quasis, range }): void {
        check(quasis.map(({ raw }) => raw).join("…"), range);
      },
    };
  },
};
