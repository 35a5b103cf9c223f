import {
  type CniServer,
  findPlugin,
  serveCni,
  type ServeOptions,
} from "@cni/plugins/libcni";

/** Serves one of this project's plugins; plugins that it calls run here, too. */
export async function serve(
  type: string,
  socket: string,
  options: ServeOptions = {},
): Promise<CniServer> {
  const plugin = await findPlugin(type);
  if (plugin === undefined) throw new Error(`No plugin is named "${type}"`);
  return await serveCni(plugin, socket, { lookup: findPlugin, ...options });
}

if (import.meta.main) {
  const [type = "ptp", socket = "/run/cni-remote/cni.sock"] = Deno.args;
  await using _server = await serve(type, socket);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  Deno.addSignalListener("SIGINT", end);
  Deno.addSignalListener("SIGTERM", end);
  await ended;
}
