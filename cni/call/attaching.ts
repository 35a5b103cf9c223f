/**
 * Telling plugins that attach a container from others.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { ifPossible } from "../../base/files/io.ts";
import type { StartingPlugin } from "./context.ts";

/**
 * Reports whether a plugin that is about to be started may make the container's
 * interface: ADD of the first plugin of a list. IPAM plugins and later plugins find
 * an interface that is of the same ADD.
 */
export function mayAttach({ path, env, stdin }: StartingPlugin): boolean {
  if (env["CNI_COMMAND"] !== "ADD") return false;
  const text = new TextDecoder().decode(stdin);
  const { type, prevResult } = ifPossible(() => JSON.parse(text)) ?? {};
  return type === basename(path) && !prevResult;
}
