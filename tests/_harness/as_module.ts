/**
 * Returns a URL by which `deno run` runs a script. Unlike `deno eval`, it
 * records coverage. Imports must be absolute.
 */
export function asModule(script: string): string {
  return `data:application/typescript,${encodeURIComponent(script)}`;
}
