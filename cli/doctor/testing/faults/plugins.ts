/**
 * Faults of plugins, and the programs that they run.
 *
 * @module
 */

import { summarizeKernel } from "../../kernel.ts";
import {
  both,
  type Fault,
  file,
  mode,
  mounted,
  network,
  OLD,
  plugin,
  type Seed,
  VERSIONS,
} from "../fault.ts";

const LACKS = summarizeKernel().lacks;

const KINDS = ["vlan", "ipvlan", "dummy", "vrf"];

const lacking = KINDS.find((kind) => LACKS.includes(kind));

/** A directory with an iptables that cannot be run, which comes first in PATH. */
function brokenIptables(
  content: string,
  bits: number,
): Pick<Fault, "seed" | "options"> {
  return {
    seed: (scene) => {
      const path = `${scene.hosts.directory}/sbin`;
      Deno.mkdirSync(path);
      Deno.writeTextFileSync(`${path}/iptables`, content, { mode: bits });
      const { plugins } = scene.readNetwork("10-pods");
      const [first, ...rest] = plugins;
      const changed = { ...first, ipMasqBackend: undefined };
      const before = Deno.readTextFileSync(
        `${scene.confDir}/10-pods.conflist`,
      );
      scene.writeNetwork("10-pods", [changed, ...rest]);
      return () => {
        scene.writeConf("10-pods.conflist", before);
        Deno.removeSync(path, { recursive: true });
      };
    },
    options: ({ hosts }) => ({
      env: { PATH: `${hosts.directory}/sbin:/usr/sbin:/usr/bin:/sbin:/bin` },
    }),
  };
}

/** Takes a plugin out of the directory. */
function without(type: string): Seed {
  return ({ hosts }) => {
    const path = `${hosts.path}/${type}`;
    const kept = `${hosts.directory}/${type}`;
    Deno.renameSync(path, kept);
    return () => Deno.renameSync(kept, path);
  };
}

/** A whole ELF header, without a segment. */
function elf(machine: number): Uint8Array {
  const bytes = Deno.readFileSync("/bin/true");
  bytes[18] = machine & 0xff;
  bytes[19] = machine >> 8;
  return bytes;
}

/** Faults of plugins, and the programs that they run. */
export const PLUGINS_FAULTS: readonly Fault[] = [
  {
    name: "a plugin that is not installed",
    checks: ["plugin-missing"],
    message: /"more" needs "brigde": .*did you mean "bridge"/,
    seed: network({ type: "brigde" }),
    command: /^cni validate \/.*\/30-more.conflist --cni-path=/,
  },
  {
    name: "an attachment's plugin that is not installed any more",
    checks: ["plugin-missing"],
    message: /^"pods" needs "bandwidth": /,
    seed: without("bandwidth"),
    command:
      /^cni install \/.* --only bandwidth --conf-dir=\S+ --cache-dir=\S+$/,
  },
  {
    name: "an attachment's plugin that is not executable any more",
    checks: ["plugin-mode"],
    message: /bin\/bandwidth" is not executable/,
    seed: both(
      without("bandwidth"),
      file(({ hosts }) => `${hosts.path}/bandwidth`, "#!/bin/sh\n", 0o644),
    ),
  },
  {
    name: "a plugin that is not executable",
    checks: ["plugin-mode"],
    message: /bin\/custom" is not executable/,
    seed: plugin("custom", VERSIONS, 0o644),
    follow: true,
  },
  {
    name: "a plugin for another machine",
    checks: ["plugin-machine"],
    message: /bin\/custom" is for s390x, but this machine is /,
    seed: plugin("custom", elf(22)),
  },
  {
    name: "a plugin that was cut off",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: /,
    seed: plugin("custom", "\x7fELF"),
  },
  {
    name: "a plugin directory that does not exist",
    checks: ["plugin-directory"],
    message: /"\/nonexistent" does not exist/,
    seed: () => () => {},
    options: ({ hosts, confDir, cacheDir }) => ({
      directories: {
        pluginDirs: [hosts.path, "/nonexistent"],
        confDir,
        cacheDir,
      },
    }),
  },
  {
    name: "another project's plugin comes first",
    checks: ["plugin-shadowed"],
    message: /bin\/bandwidth" is not used: ".*first\/bandwidth"/,
    seed: ({ hosts: { directory } }) => {
      Deno.mkdirSync(`${directory}/first`);
      Deno.writeTextFileSync(`${directory}/first/bandwidth`, VERSIONS, {
        mode: 0o755,
      });
      return () => Deno.removeSync(`${directory}/first`, { recursive: true });
    },
    options: ({ hosts, confDir, cacheDir }) => ({
      directories: {
        pluginDirs: [`${hosts.directory}/first`, hosts.path],
        confDir,
        cacheDir,
      },
    }),
  },
  {
    name: "a kernel without a kind of link",
    checks: ["kernel-feature"],
    message: new RegExp(`has no ${lacking}, which ${lacking} of "more" needs`),
    seed: network({
      type: lacking,
      master: "out0",
      vlanId: 5,
      ipam: { type: "static", addresses: [{ address: "10.9.9.9/24" }] },
    }),
    ignore: lacking === undefined,
  },
  {
    name: "a world-writable plugin directory",
    checks: ["plugin-writable"],
    message: /any user can write to ".*bin"/,
    seed: mode(({ hosts }) => hosts.path, 0o777),
    follow: true,
  },
  {
    name: "a world-writable plugin",
    checks: ["conf-invalid", "plugin-writable"],
    message: /any user can write to ".*bin\/custom"/,
    seed: both(
      plugin("custom", OLD),
      mode(({ hosts }) => `${hosts.path}/custom`, 0o777),
    ),
  },
  {
    name: "plugins on a file system with noexec",
    checks: ["plugin-noexec"],
    message: /noexec" is mounted with noexec, but plugins are in ".*noexec"/,
    seed: mounted(
      ({ hosts }) => `${hosts.directory}/noexec`,
      "noexec,size=1m",
      "for name in a b c d e; do printf '#!/bin/sh\\n' > $path/$name; " +
        "chmod 755 $path/$name; done",
    ),
    options: ({ hosts, confDir, cacheDir }) => ({
      directories: {
        pluginDirs: [hosts.path, `${hosts.directory}/noexec`],
        confDir,
        cacheDir,
      },
    }),
  },
  {
    name: "a plugin that is a dangling link",
    checks: ["plugin-missing", "plugin-broken"],
    message: /bin\/custom" does not work: dangling link/,
    seed: both(network({ type: "custom" }), ({ hosts }) => {
      Deno.symlinkSync("/nonexistent", `${hosts.path}/custom`);
      return () => Deno.removeSync(`${hosts.path}/custom`);
    }),
  },
  {
    name: "a script whose interpreter is missing",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: /,
    seed: plugin("custom", "#!/nonexistent/sh\n"),
  },
  {
    name: "a plugin that prints something else than its versions",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: /,
    seed: plugin("custom", "#!/bin/sh\necho hello\n"),
  },
  {
    name: "iptables that is not executable",
    checks: ["iptables-broken"],
    message: /sbin\/iptables" cannot be run: it is not executable/,
    ...brokenIptables("#!/bin/sh\n", 0o644),
    follow: true,
  },
  {
    name: "iptables without its libraries",
    checks: ["iptables-broken"],
    message: /sbin\/iptables" cannot be run: .*libxtables/,
    ...brokenIptables(
      "#!/bin/sh\necho 'error while loading shared libraries: libxtables.so.12' >&2\nexit 127\n",
      0o755,
    ),
  },
  {
    name: "iptables that hangs",
    checks: ["iptables-broken", "not-ready"],
    message: /sbin\/iptables" cannot be run: it did not end within 5 s/,
    ...brokenIptables("#!/bin/sh\nkill -STOP $$\n", 0o755),
  },
];
