/**
 * Programs that see other files than the machine's.
 *
 * @module
 */

/**
 * Returns the path of a script that runs a program in a mount namespace of its
 * own. Network namespaces are not changed.
 *
 * @param directory Where the script is written; the caller removes it
 * @param program Path of the program
 * @param mounts Lines of shell, without single quotes
 * @param root The root directory of the program; the machine's by default
 */
export function withMounts(
  directory: string,
  program: string,
  mounts: readonly string[],
  root?: string,
): string {
  const script = Deno.makeTempFileSync({ dir: directory, prefix: "mounts-" });
  const enter = root === undefined ? "" : `chroot "${root}" `;
  Deno.writeTextFileSync(
    script,
    `#!/bin/sh
exec unshare --mount --propagation private sh -ec '
${mounts.join("\n")}
exec ${enter}"$0" "$@"' '${program}' "$@"
`,
  );
  Deno.chmodSync(script, 0o755);
  return script;
}
