/**
 * Running plugins as processes, for those who have no plugins of their own.
 *
 * @module
 */

import { findPlugin, splitPath } from "./find.ts";
import type { Invoker } from "./invoker.ts";

/** Runs the executable that CNI_PATH leads to. */
export const execInvoker: Invoker = {
  async invoke(invocation): Promise<string> {
    const folders = splitPath(invocation.env["CNI_PATH"] ?? "");
    const path = findPlugin(invocation.type, folders);
    // Loaded here: most of those who have this invoker never use it.
    const { execPlugin } = await import("./exec.ts");
    return await execPlugin(path, invocation);
  },
};
