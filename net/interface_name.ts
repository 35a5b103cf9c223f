/**
 * Limits of a network interface's name.
 *
 * @module
 */

/** Bytes of a name including its NUL. Source: include/uapi/linux/if.h `IFNAMSIZ`. */
export const IFNAMSIZ = 16;

/** The longest name, in bytes. Only alternative names can be longer. */
export const MAX_INTERFACE_NAME_BYTES = IFNAMSIZ - 1;

/** Reports whether a name is short enough for an interface. */
export function fitsInterfaceName(name: string): boolean {
  return new TextEncoder().encode(name).length <= MAX_INTERFACE_NAME_BYTES;
}
