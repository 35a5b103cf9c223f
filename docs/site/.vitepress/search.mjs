/**
 * What the search prefers. Each function is sent to the browser as text, so it
 * stands alone.
 */
export const SEARCH = {
  // A question consists mostly of words that every page has.
  processTerm: (term) =>
    /^(an?|and|are|be|by|can|cni|did|do|does|for|from|has|have|how|i|in|is|it|its|may|me|must|my|needs?|of|on|or|our|set|should|the|their|there|they|this|that|to|was|we|what|when|where|which|who|why|with|you|your)$/i
        .test(term)
      ? null
      : term.toLowerCase(),
  // "del" begins "delegate", and "in" "interface": only the word that the
  // reader still types may be a beginning, and longer words.
  prefix: (term, index, terms) =>
    index === terms.length - 1 ? term.length > 1 : term.length > 4,
  fuzzy: (term) => term.length > 4 ? 0.2 : false,
  // Operators search more than authors of plugins, and by symptom.
  boostDocument: (id) =>
    id.includes("/uninstall.html")
      ? 1.7
      : /\/(troubleshooting|doctor|install)\.html/.test(id)
      ? 1.5
      : id.includes("/migrate.html")
      ? 1.2
      : /\/(runtime-library|compatibility)\.html/.test(id)
      ? 0.5
      : 1,
};
