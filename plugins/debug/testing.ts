/**
 * The file by which a node asks for what the plugin debug does.
 *
 * @module
 */

/**
 * Writes the file to the directory that `TestHosts` names by NETCONFPATH.
 *
 * @param directory Of the host
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
