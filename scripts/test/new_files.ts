/**
 * Files that tests leave in the checkout.
 *
 * @module
 */

/** Lists files that are neither git's nor ignored; none without git. */
export function listNewFiles(root: string | URL): string[] {
  const args = [
    ...["-c", "safe.directory=*", "ls-files", "-z", "--others"],
    "--exclude-standard",
  ];
  try {
    const { stdout } = new Deno.Command("git", { args, cwd: root })
      .outputSync();
    const text = new TextDecoder().decode(stdout);
    return text.split("\0").filter((path) => path !== "");
  } catch {
    return [];
  }
}
