/**
 * Where the pages of docs/ are read.
 *
 * @module
 */

/**
 * Where the site that `deno task docs` builds is published: `homepage` of
 * package.json. Undefined while it is not.
 */
export const SITE: string | undefined = undefined;

/**
 * Returns the address of a section: of the published site, else the path of the
 * file in this repository.
 *
 * @param page Without extension, such as `findings`
 */
export function addressOf(
  page: string,
  section: string,
  site: string | undefined = SITE,
): string {
  return site === undefined
    ? `docs/${page}.md#${section}`
    : `${site.replace(/\/$/, "")}/${page}.html#${section}`;
}
