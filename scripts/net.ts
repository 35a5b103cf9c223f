/**
 * Says which import map a deno command shall use: none where jsr.io answers,
 * `scripts/offline/import_map.json` where it does not.
 *
 * Run as a script it prints the extra command-line flags (or nothing), for use
 * as `deno test $(deno run -A --no-config scripts/net.ts)`. Imports nothing, so
 * that it runs before any import can be resolved.
 *
 * @module
 */

/** Replaces the `jsr:` imports of deno.json by the stand-ins. */
export const OFFLINE_IMPORT_MAP = "scripts/offline/import_map.json";

/** Flags that have it used. */
export const OFFLINE_FLAGS = [
  "--no-remote",
  `--import-map=${OFFLINE_IMPORT_MAP}`,
] as const;

/** How long a server may take to answer before it counts as out of reach. */
const PROBE_TIMEOUT_MS = 2000;

/**
 * Finds out whether the `jsr:` imports can be resolved.
 *
 * `OFFLINE=1` and `OFFLINE=0` decide without asking; otherwise jsr.io is asked
 * once, for at most two seconds.
 */
export async function isOffline(): Promise<boolean> {
  const decided = Deno.env.get("OFFLINE");
  if (decided === "1") return true;
  if (decided === "0") return false;
  return !await isReachable("https://jsr.io/@std/path/meta.json");
}

/** Asks, for at most two seconds, whether a file can be had. */
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
 * Returns the flags for a deno command that runs, checks or bundles our code,
 * and sets `OFFLINE` so that child processes need not ask again.
 */
export async function importFlags(): Promise<string[]> {
  const offline = await isOffline();
  Deno.env.set("OFFLINE", offline ? "1" : "0");
  return offline ? [...OFFLINE_FLAGS] : [];
}

if (import.meta.main) {
  const asked = !Deno.env.get("OFFLINE");
  const flags = await importFlags();
  if (asked && flags.length > 0) {
    console.error(
      "jsr.io is out of reach: using scripts/offline/import_map.json",
    );
  }
  console.log(flags.join(" "));
}
