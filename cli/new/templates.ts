/**
 * The files of a new plugin, by kind. `NAME` stands for its type, and `IDENT`
 * for the name of its value.
 *
 * @module
 */

/** A kind of plugin: the first of a list, a chained plugin, or an IPAM plugin. */
export type TemplateKind = "main" | "chained" | "ipam";

/** The plugin: `main.ts`. */
const SOURCES: Readonly<Record<TemplateKind, string>> = {
  main: `import {
  type Call,
  checkAddresses,
  checkIfNameIsFree,
  checkLink,
  definePlugin,
  findSandbox,
  netConf,
  openSandbox,
  type Result,
  Rollback,
  Rtnl,
  runMain,
  SPEC_VERSIONS,
  stableName,
  type TearDownStep,
  tryAll,
} from "@cni/plugins";

/** Creates a veth pair with the addresses of the IPAM plugin. */
export const IDENT = definePlugin({
  name: "NAME",
  versions: SPEC_VERSIONS,
  configSchema: () => netConf({}),
  answerTools: async (...asked) =>
    (await import("./metadata.ts")).answer(...asked),

  async add(call): Promise<Result> {
    const { args, hostNetns, ipam, log } = call;
    using host = Rtnl.open(hostNetns);
    using sandbox = openSandbox(args);
    checkIfNameIsFree(sandbox, args.ifName);
    await using rollback = new Rollback(log);
    const lease = await ipam.add();
    rollback.onFailureLast("release the addresses", () => ipam.del());
    const name = hostEndOf(call);
    const peer = { netns: sandbox.netns, name: args.ifName };
    const { index: hostIndex } = host.link.addVeth({ name, peer });
    rollback.onFailure(\`delete "\${name}"\`, () => {
      host.link.ensureGone(name);
    });
    host.link.set(hostIndex, { isUp: true });
    const { index: ifindex, mac } = sandbox.link.get(args.ifName);
    sandbox.link.set(ifindex, { isUp: true });
    for (const { address } of lease.ips) {
      sandbox.address.add({ ifindex, address });
    }
    rollback.commit();
    const own = { name: args.ifName, mac: \`\${mac}\`, sandbox: args.netns };
    const ips = lease.ips.map((ip) => ({ ...ip, interface: 1 }));
    return { ...lease, ips, interfaces: [{ name }, own] };
  },

  async check({ args, ipam, prevResult }): Promise<void> {
    using sandbox = openSandbox(args);
    const link = checkLink(sandbox, { name: args.ifName });
    const addresses = prevResult?.ips.map(({ address }) => address) ?? [];
    checkAddresses(sandbox, link, addresses);
    await ipam.check();
  },

  async del(call): Promise<void> {
    using sandbox = findSandbox(call);
    using host = Rtnl.open(call.hostNetns);
    // Once an address is allocated again, no old link must have it.
    const unlink: TearDownStep = ["delete the link", () => {
      host.link.ensureGone(hostEndOf(call));
      sandbox?.link.ensureGone(call.args.ifName);
    }];
    await tryAll([
      unlink,
      ["release the addresses", () => call.ipam.del(), unlink],
    ]);
  },

  gc: (call) => call.ipam.gc(),
  status: (call) => call.ipam.status(),
});

/** DEL finds the host's end by the same name. */
function hostEndOf({ network, args }: Call): string {
  return stableName("NAME", network, args.containerId, args.ifName);
}

if (import.meta.main) await runMain(IDENT);
`,
  chained: `import {
  CniError,
  definePlugin,
  ErrorCode,
  findSandbox,
  netConf,
  openSandbox,
  type Result,
  runMain,
  SPEC_VERSIONS,
} from "@cni/plugins";
import * as z from "zod/mini";

/** Sets the MTU of the container's interface. */
export const IDENT = definePlugin({
  name: "NAME",
  versions: SPEC_VERSIONS,
  configSchema: () => netConf({ mtu: z._default(z.int(), 1400) }),
  answerTools: async (...asked) =>
    (await import("./metadata.ts")).answer(...asked),

  add({ args, config, prevResult }): Result {
    if (prevResult === undefined) {
      const why = "NAME must be called as chained plugin";
      throw new CniError(ErrorCode.InvalidNetworkConfig, why);
    }
    using sandbox = openSandbox(args);
    const { index } = sandbox.link.get(args.ifName);
    sandbox.link.set(index, { mtu: config.mtu });
    return prevResult;
  },

  check({ args, config }): void {
    using sandbox = openSandbox(args);
    const { mtu } = sandbox.link.get(args.ifName);
    if (mtu === config.mtu) return;
    throw new Error(\`"\${args.ifName}" has the MTU \${mtu}, not \${config.mtu}\`);
  },

  // Must succeed if there is nothing to undo.
  del(call): void {
    using sandbox = findSandbox(call);
    const link = sandbox?.link.find(call.args.ifName);
    if (link?.mtu === call.config.mtu) {
      sandbox?.link.set(link.index, { mtu: 1500 });
    }
  },
});

if (import.meta.main) await runMain(IDENT);
`,
  ipam: `import {
  Cidr,
  cidrSchema,
  CniError,
  definePlugin,
  emptyResult,
  ErrorCode,
  netConf,
  type Result,
  runMain,
  SPEC_VERSIONS,
} from "@cni/plugins";
import * as z from "zod/mini";

/** Derives an address from the container ID and the interface's name. */
export const IDENT = definePlugin({
  name: "NAME",
  versions: SPEC_VERSIONS,
  configSchema: () => {
    const keys = { type: z.string(), subnet: cidrSchema() };
    return netConf({ ipam: z.optional(z.looseObject(keys)) });
  },
  answerTools: async (...asked) =>
    (await import("./metadata.ts")).answer(...asked),

  add({ args, config }): Result {
    if (config.ipam === undefined) {
      throw new CniError(ErrorCode.InvalidNetworkConfig, "ipam is missing");
    }
    const { subnet } = config.ipam;
    const gateway = subnet.masked().ip.add(1n);
    const ip = gateway.add(1n + hash(\`\${args.containerId} \${args.ifName}\`));
    if (!subnet.contains(ip)) {
      throw new CniError(ErrorCode.TryAgainLater, \`\${subnet} has no \${ip}\`);
    }
    const address = new Cidr(ip, subnet.prefixLength);
    return { ...emptyResult(), ips: [{ address, gateway }] };
  },

  // Nothing is stored, so there is nothing to release.
  del(): void {},
});

/** Returns a number from 0 to 250. */
function hash(text: string): bigint {
  let sum = 0;
  for (const byte of new TextEncoder().encode(text)) {
    sum = sum * 31 + byte >>> 0;
  }
  return BigInt(sum % 251);
}

if (import.meta.main) await runMain(IDENT);
`,
};

/** The description of a kind of plugin for tools: lines of `about`, a text, and keys. */
const DESCRIPTIONS: Readonly<
  Record<TemplateKind, readonly [string, string, string]>
> = {
  main: [
    `kind: "interface",
  ipam: "required",
  makesInterface: true,`,
    "Connects the container to the host with a veth pair.",
    "{}",
  ],
  chained: [
    `kind: "chained",
  lint,`,
    "Sets the MTU of the container's interface.",
    `{
    mtu: { text: "MTU of the interface in bytes.", example: 1400 },
  }`,
  ],
  ipam: [
    'kind: "ipam",',
    "Derives an address from the container and the interface.",
    `{
    subnet: { text: "Network of the addresses.", example: "10.88.0.0/24" },
  }`,
  ],
};

/** Formats the plugin's description for tools: `metadata.ts`. */
function formatMetadata(kind: TemplateKind): string {
  const [metadata, text, keys] = DESCRIPTIONS[kind];
  const has = (lines: string): string => kind === "chained" ? lines : "";
  return `import {
  answerTools,
${has("  type Linted,\n")}  type Plugin,
  type PluginDescription,
  type PluginMetadata,
${has("  type Problem,\n  warningAt,\n")}} from "@cni/plugins";

const metadata: PluginMetadata = {
  type: "NAME",
  ${metadata}
};

/** Describes the plugin to cni validate, explain and schema. */
const description: PluginDescription = {
  metadata,
  text: "${text}",
  keys: ${keys},
};
${
    has(`
/** Lists what is wrong although the schema reads it. */
function lint({ conf }: Linted): Problem[] {
  return Number(conf["mtu"]) < 1280
    ? [warningAt(["mtu"], "less than the 1280 bytes that IPv6 needs")]
    : [];
}
`)
  }
/** Answers the questions of tools. Calls do not load it. */
export function answer(
  question: { readonly ask: string },
  plugin: Plugin,
): Promise<object> {
  return answerTools(question, plugin, description);
}
`;
}

/** Configurations of the list in the test, the tested plugin last. */
const LISTS: Readonly<Record<TemplateKind, string>> = {
  main: `conformPlugin(IDENT, (hosts) => [
  { type: "NAME", ipam: hosts.hostLocal("10.1.2.0/24") },
]);`,
  chained: `conformPlugin(IDENT, (hosts) => [
  { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") },
  { type: "NAME", mtu: 1300 },
]);`,
  ipam: `conformPlugin(IDENT, () => [
  { type: "ptp", ipam: { type: "NAME", subnet: "10.1.2.0/24" } },
]);`,
};

/** Returns the test: `plugin_test.ts`. */
function formatTest(kind: TemplateKind): string {
  return `import { conformPlugin } from "@cni/plugins/testing";
import { IDENT } from "./main.ts";

${LISTS[kind]}
`;
}

/** The texts of a kind of plugin, by file. */
export type Templates = Readonly<
  Record<"main.ts" | "plugin_test.ts" | "metadata.ts", string>
>;

/** Loads the texts. The build packs what this returns. */
export function loadTemplates(): Promise<
  Readonly<Record<TemplateKind, Templates>>
> {
  const build = (kind: TemplateKind): Templates => ({
    "main.ts": SOURCES[kind],
    "plugin_test.ts": formatTest(kind),
    "metadata.ts": formatMetadata(kind),
  });
  return Promise.resolve({
    main: build("main"),
    chained: build("chained"),
    ipam: build("ipam"),
  });
}
