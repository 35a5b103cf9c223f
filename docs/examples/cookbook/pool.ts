import {
  type Call,
  Cidr,
  cidrSchema,
  CniError,
  definePlugin,
  emptyResult,
  ErrorCode,
  FileLock,
  type Ip,
  netConf,
  type Result,
  runMain,
  SPEC_VERSIONS,
} from "@cni/plugins";
import * as z from "zod/mini";

/** An IPAM plugin: the first free address of a subnet, a file for each lease. */
export const pool = definePlugin({
  name: "pool",
  versions: SPEC_VERSIONS,
  configSchema: () => {
    const keys = {
      type: z.string(),
      subnet: cidrSchema(),
      directory: z.string(),
    };
    return netConf({ ipam: z.optional(z.looseObject(keys)) });
  },

  async add(call): Promise<Result> {
    if (call.config.ipam === undefined) {
      throw new CniError(ErrorCode.InvalidNetworkConfig, "ipam is missing");
    }
    const { subnet, directory } = call.config.ipam;
    using _lock = await lock(directory);
    const ip = lease(directory, subnet, ownerOf(call));
    const address = new Cidr(ip, subnet.prefixLength);
    const gateway = firstOf(subnet);
    return { ...emptyResult(), ips: [{ address, gateway }] };
  },

  async del(call): Promise<void> {
    await release(call, (owner) => owner === ownerOf(call));
  },

  async gc(call): Promise<void> {
    const valid = call.validAttachments?.map(formatOwner);
    if (valid) await release(call, (owner) => !valid.includes(owner));
  },
});

type PoolCall = Call<
  { ipam?: { type: string; directory: string } | undefined }
>;

async function release(
  { config }: PoolCall,
  isGone: (owner: string) => boolean,
): Promise<void> {
  const { directory } = config.ipam ?? {};
  if (directory === undefined) return;
  using _lock = await lock(directory);
  for (const { name, owner } of listLeases(directory)) {
    if (isGone(owner)) await Deno.remove(`${directory}/${name}`);
  }
}

async function lock(directory: string): Promise<FileLock> {
  await Deno.mkdir(directory, { recursive: true });
  return await FileLock.acquire(`${directory}/lock`, 0o600);
}

function firstOf(subnet: Cidr): Ip {
  return subnet.masked().ip.add(1n);
}

/** Writes the file of the first free address. */
function lease(directory: string, subnet: Cidr, owner: string): Ip {
  const taken = listLeases(directory);
  if (taken.some((lease) => lease.owner === owner)) {
    throw new Error(`"${owner}" has an address`);
  }
  let ip = firstOf(subnet).add(1n);
  for (; subnet.contains(ip.add(1n)); ip = ip.add(1n)) {
    if (taken.some(({ name }) => name === `${ip}`)) continue;
    Deno.writeTextFileSync(`${directory}/${ip}`, owner);
    return ip;
  }
  throw new CniError(
    ErrorCode.TryAgainLater,
    `No address of ${subnet} is free`,
  );
}

function listLeases(directory: string): { name: string; owner: string }[] {
  return [...Deno.readDirSync(directory)].filter(({ name }) => name !== "lock")
    .map(({ name }) => ({
      name,
      owner: Deno.readTextFileSync(`${directory}/${name}`),
    }));
}

function ownerOf({ args }: PoolCall): string {
  return formatOwner(args);
}

function formatOwner(
  { containerId, ifName }: { containerId: string; ifName: string },
): string {
  return `${containerId} ${ifName}`;
}

if (import.meta.main) await runMain(pool);
