/**
 * A machine that hides its boot ID.
 *
 * @module
 */

import { intercept } from "../../testing/fault_injector.ts";

/** Hides the boot ID from this process until disposal. */
export function hideBootId(): Disposable {
  const restore = intercept(Deno, "readTextFileSync", ([path], work) => {
    if (`${path}`.endsWith("/boot_id")) throw new Deno.errors.NotFound();
    return work();
  });
  return { [Symbol.dispose]: restore };
}
