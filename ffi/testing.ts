/**
 * Containers with their own user namespace.
 *
 * @module
 */

/** Starts a process that is root in its own user and network namespaces. */
export async function startUserNamespace(): Promise<
  AsyncDisposable & { readonly pid: number }
> {
  const child = new Deno.Command("unshare", {
    args: ["--user", "--map-root-user", "--net", "cat"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  // The output shows that the process is inside.
  await writer.write(new TextEncoder().encode("here"));
  const reader = child.stdout.getReader();
  await reader.read();
  return {
    pid: child.pid,
    async [Symbol.asyncDispose](): Promise<void> {
      await writer.close();
      await reader.cancel();
      await child.status;
    },
  };
}
