/**
 * Traces waits for locks.
 *
 * @module
 */

import { FileLock } from "../../base/files/lock.ts";
import type { Recorder } from "./recorder.ts";

/**
 * Records how long this process waits for locks of files.
 *
 * @returns Stops it
 */
export function traceLocks(recorder: Recorder): () => void {
  const { acquire, acquireExisting } = FileLock;
  const wait = (
    path: string,
    work: () => Promise<FileLock>,
  ): Promise<FileLock> =>
    recorder.around({ kind: "wait", name: "lock", object: path }, work);
  FileLock.acquire = (path, mode, how) =>
    wait(path, () => acquire.call(FileLock, path, mode, how));
  FileLock.acquireExisting = (path, how) =>
    wait(path, () => acquireExisting.call(FileLock, path, how));
  return () => {
    FileLock.acquire = acquire;
    FileLock.acquireExisting = acquireExisting;
  };
}
