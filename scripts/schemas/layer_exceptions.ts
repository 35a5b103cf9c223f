/**
 * Lists the imports that ARCHITECTURE.md admits as exceptions from its table of
 * directories: those that `scripts/lint/layers.ts` permits, and that do not lead to a
 * directory above. The list is between `<!-- exceptions -->` and `<!-- end -->`.
 *
 * @module
 */

import { LAYERS } from "../lint/layers.ts";

const LIST = /(<!-- exceptions -->\n)[^]*?(<!-- end -->)/;

/** Files of a plugin that other directories may import. */
const SHARED_FILES = /\/(plugin|metadata|inspect|command|daemon)\.ts$/;

/** Writes the list of a page anew. */
export function withLayerExceptions(page: string): string {
  const rows = listExceptions(page).map(({ files, imports }) =>
    `- \`${files}\` imports ${imports.map((path) => `\`${path}\``).join(", ")}`
  );
  return page.replace(
    LIST,
    (_, begin, end) => `${begin}\n${rows.join("\n")}\n\n${end}`,
  );
}

/** Files, and what they import although no directory above contains it. */
interface Exception {
  readonly files: string;
  readonly imports: readonly string[];
}

/** Lists the exceptions from the table of a page. */
function listExceptions(page: string): Exception[] {
  const directories = [...page.matchAll(/^\| \[`([\w/]+)`\]/gm)]
    .map(([, directory = ""]) => directory);
  if (directories.length === 0) throw new Error("The page has no directories");
  /** Returns the row of the innermost directory of a path; -1 if there is none. */
  const levelOf = (path: string): number =>
    directories.indexOf(
      directories.filter((directory) => path.startsWith(directory))
        .toSorted((a, b) => b.length - a.length)[0] ?? "",
    );
  return LAYERS.flatMap(({ files, mayImport, mayLoad }) => {
    const level = levelOf(files);
    // Entry points are in no directory: they may import every one.
    const isAbove = (path: string): boolean =>
      level === -1 || levelOf(path) !== -1 && levelOf(path) <= level;
    const exceptions = [...mayImport, ...mayLoad].filter((path) =>
      !isAbove(path) || isInsidePlugin(files, path)
    );
    return exceptions.length === 0 ? [] : [{ files, imports: exceptions }];
  });
}

/** Reports whether a path is in the directory of a plugin that has nothing to do with the files. */
function isInsidePlugin(files: string, path: string): boolean {
  const [own] = /^(plugins|ipam)\/(?!parts\/|lists\/)\w+\//.exec(path) ?? [];
  return own !== undefined && !files.startsWith(own) &&
    !SHARED_FILES.test(path);
}
