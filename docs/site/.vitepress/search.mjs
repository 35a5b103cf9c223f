/**
 * What the search prefers. Each function is sent to the browser as text, so it
 * stands alone.
 */
export const SEARCH = {
  // "del" begins "delegate", and "in" "interface": only the word that the
  // reader still types may be a beginning, and longer words.
  prefix: (term, index, terms) =>
    index === terms.length - 1 ? term.length > 1 : term.length > 4,
  fuzzy: (term) => term.length > 4 ? 0.2 : false,
  // Operators search more than authors of plugins, and by symptom.
  boostDocument: (id) =>
    /\/(troubleshooting|doctor|install|migrate|uninstall)\.html/.test(id)
      ? 1.5
      : /\/(runtime-library|performance|compatibility)\.html/.test(id)
      ? 0.5
      : 1,
};
