/**
 * Times in texts and objects.
 *
 * @module
 */

/** Formats a time in UTC and whole seconds, as Kubernetes does: `2024-05-01T10:00:00Z`. */
export function formatTime(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}
