/**
 * Finds out which flags a deno command needs: none where jsr.io is reachable,
 * else those for `scripts/offline/import_map.json`.
 *
 * `scripts/deno.ts` adds them to a command. Imports nothing, so that it runs before
 * any import can be resolved.
 *
 * @module
 */

/** Maps the `jsr:` imports of deno.json to stand-ins. */
export const OFFLINE_IMPORT_MAP = "scripts/offline/import_map.json";

/** The flags that select it. */
export const OFFLINE_FLAGS = [
  "--no-remote",
  `--import-map=${OFFLINE_IMPORT_MAP}`,
] as const;

/** Refuses packages that deno.lock does not name. */
const FROZEN = "--frozen";

/** How long a server may take to respond. */
const PROBE_TIMEOUT_MS = 2000;

/**
 * Reports whether `jsr:` imports cannot be resolved.
 *
 * `OFFLINE=1` and `OFFLINE=0` decide without a request. Otherwise one request
 * to jsr.io decides; it takes two seconds at most.
 */
export async function isOffline(): Promise<boolean> {
  const decided = Deno.env.get("OFFLINE");
  if (decided === "1") return true;
  if (decided === "0") return false;
  return !await isReachable("https://jsr.io/@std/path/meta.json");
}

/** Reports whether a URL responds with success, within two seconds. */
export async function isReachable(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, {
      method: "HEAD",
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

/**
 * Reports whether deno.lock has every package that our code imports: those of npm, and
 * where jsr.io is in reach its packages, too (`deno task lock`).
 */
async function isLockComplete(offline: boolean): Promise<boolean> {
  if (offline) return true;
  const path = new URL("../deno.lock", import.meta.url);
  return "jsr" in JSON.parse(await Deno.readTextFile(path));
}

/**
 * Returns the flags for a deno command that runs, checks or bundles our code,
 * and sets `OFFLINE` so that child processes do not ask again.
 */
export async function importFlags(): Promise<string[]> {
  const offline = await isOffline();
  Deno.env.set("OFFLINE", offline ? "1" : "0");
  return [
    ...offline ? OFFLINE_FLAGS : [],
    ...await isLockComplete(offline) ? [FROZEN] : [],
  ];
}

/** Returns the flags for a program that has packages of its own. */
export async function foreignImportFlags(): Promise<string[]> {
  return (await importFlags()).filter((flag) => flag !== FROZEN);
}
