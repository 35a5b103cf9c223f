/**
 * Drops all capabilities of a thread, which then cannot return from a namespace.
 *
 * @module
 */

/** Source: include/uapi/linux/capability.h `_LINUX_CAPABILITY_VERSION_3`. */
const VERSION = 0x20080522;

/** Takes all capabilities from the calling thread, as capset(2) does. */
export function dropCapabilities(): void {
  const { symbols } = Deno.dlopen("libc.so.6", {
    capset: { parameters: ["buffer", "buffer"], result: "i32" },
  });
  const result = symbols.capset(
    new Uint32Array([VERSION, 0]),
    new Uint32Array(6),
  );
  if (result !== 0) throw new Error("capset(2) failed");
}
