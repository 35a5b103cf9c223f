/**
 * A check before each change to the machine, for a process that runs many calls: a
 * call that was given up must not change what a later one has made.
 *
 * @module
 */

/** Throws if nothing may be changed any more. */
export type ChangeCheck = () => void;

/** Knows which check the running work has, as `AsyncLocalStorage` does. */
export interface CheckStorage {
  getStore(): ChangeCheck | undefined;
  run<T>(check: ChangeCheck | undefined, work: () => T): T;
}

let storage: CheckStorage | undefined;

/** Enables checks, without which a process with a single call does. */
export function enableChangeChecks(newStorage: CheckStorage): void {
  storage ??= newStorage;
}

/**
 * Runs work, and checks its changes if checks are enabled.
 *
 * @param check Undefined if the work may change everything
 */
export function withChangeCheck<T>(
  check: ChangeCheck | undefined,
  work: () => T,
): T {
  return storage === undefined ? work() : storage.run(check, work);
}

/** Returns the check of the running work, for what others do on its behalf. */
export function currentCheck(): ChangeCheck | undefined {
  return storage?.getStore();
}

/**
 * Called immediately before something is changed.
 *
 * @throws {Error} What the check of the running work throws
 */
export function checkChange(): void {
  storage?.getStore()?.();
}
