/**
 * A check before each change to the machine. It is for a process that runs many
 * calls: an abandoned call must not change what a later call created.
 *
 * @module
 */

/** Throws if the running work is no longer permitted to change anything. */
export type ChangeCheck = () => void;

/** Stores the check of the running work, like `AsyncLocalStorage`. */
export interface CheckStorage {
  getStore(): ChangeCheck | undefined;
  run<T>(check: ChangeCheck | undefined, work: () => T): T;
}

let storage: CheckStorage | undefined;

/** Enables checks, which a process with a single call does not need. */
export function enableChangeChecks(newStorage: CheckStorage): void {
  storage ??= newStorage;
}

/**
 * Runs work, and checks its changes if checks are enabled.
 *
 * @param check Undefined if the work is permitted to change everything
 */
export function withChangeCheck<T>(
  check: ChangeCheck | undefined,
  work: () => T,
): T {
  return storage === undefined ? work() : storage.run(check, work);
}

/**
 * Returns the check of the running work, for code that runs elsewhere on its behalf.
 */
export function currentCheck(): ChangeCheck | undefined {
  return storage?.getStore();
}

/**
 * Must be called immediately before each change.
 *
 * @throws {Error} The error of the running work's check
 */
export function checkChange(): void {
  storage?.getStore()?.();
}
