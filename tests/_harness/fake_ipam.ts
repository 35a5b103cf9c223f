/**
 * An IPAM plugin with results from a test: a shell script, so that it is
 * run as any other program's plugin would be.
 *
 * @module
 */

/** The script's result of ADD, and its record of calls. */
export interface FakeIpam {
  /** The plugin's type. */
  readonly type: string;
  /** The commands that it was called with, in order. */
  calls(): string[];
}

/**
 * Puts a script into a directory of plugins.
 *
 * @param directory A directory of CNI_PATH
 * @param answers Output and exit status of each command; nothing and 0 by default
 */
export function writeFakeIpam(
  directory: string,
  answers: Readonly<Record<string, { stdout: unknown; exitCode?: number }>>,
): FakeIpam {
  const type = "fake-ipam";
  const log = `${directory}/${type}.calls`;
  const cases = Object.entries(answers).map(([command, answer]) =>
    `${command}) cat <<'END'
${JSON.stringify(answer.stdout)}
END
exit ${answer.exitCode ?? 0};;`
  );
  Deno.writeTextFileSync(
    `${directory}/${type}`,
    `#!/bin/sh
cat > /dev/null
echo "$CNI_COMMAND" >> '${log}'
case "$CNI_COMMAND" in
${cases.join("\n")}
esac
`,
    { mode: 0o755 },
  );
  Deno.writeTextFileSync(log, "");
  return {
    type,
    calls: () => Deno.readTextFileSync(log).split("\n").filter(Boolean),
  };
}
