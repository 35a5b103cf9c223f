/**
 * Running plugins as processes, for programs without plugins of their own.
 *
 * @module
 */

import { findExecutable, splitPath } from "./find.ts";
import type { Invoker } from "../call/context.ts";

/** Runs the executable found in CNI_PATH. */
export const execInvoker: Invoker = {
  async invoke(invocation): Promise<string> {
    const directories = splitPath(invocation.env["CNI_PATH"] ?? "");
    const path = findExecutable(invocation.type, directories);
    // Loaded lazily: most processes never use this invoker.
    const { execPlugin } = await import("./exec.ts");
    return await execPlugin(path, invocation);
  },
};
