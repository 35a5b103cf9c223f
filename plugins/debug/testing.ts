/**
 * The file with which a node requests the actions of the plugin debug.
 *
 * @module
 */

/**
 * Writes the file to the directory that `TestHosts` passes as NETCONFPATH.
 *
 * @param directory The host's directory
 * @returns NETCONFPATH, for other calls
 */
export function writeDebugFile(
  directory: string,
  config: object,
): { NETCONFPATH: string } {
  const path = `${directory}/net.d`;
  Deno.mkdirSync(path, { recursive: true });
  const plugins = [{ ...config, type: "debug" }];
  Deno.writeTextFileSync(
    `${path}/10-debug.conflist`,
    JSON.stringify({ cniVersion: "1.1.0", name: "net1", plugins }),
  );
  return { NETCONFPATH: path };
}
