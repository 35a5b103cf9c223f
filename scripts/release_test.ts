import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import node from "../package.json" with { type: "json" };
import { hasCommand } from "../testing/capabilities.ts";
import { hexOfFile } from "./compile/runtime.ts";
import { ROOT, run } from "./project.ts";
import { addDocuments, checkDirectory, replaceFiles } from "./release.ts";
import {
  allEnded,
  ARCHIVE_KINDS,
  type ArchiveKind,
  formatChecksum,
  writeArchive,
  writeChart,
} from "./release/archive.ts";
import { listComponents, listJsr } from "./release/components.ts";
import { listCrates, readCargoLock } from "./release/crates.ts";
import { writeDeb, writeRepository } from "./release/debian.ts";
import { Images } from "./release/images.ts";
import { formatNotices, formatSbom } from "./release/sbom.ts";

const release = { name: "cni-plugins", version: "1.2.3", epoch: 1_700_000_000 };

/** A temporary directory, removed at the end. */
class Directory implements AsyncDisposable {
  readonly path = Deno.makeTempDirSync();

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

/** Writes a small directory as `deno task compile` makes it, and adds hard links. */
async function writeContent(path: string, names: string[]): Promise<void> {
  await Deno.mkdir(`${path}/bin`, { recursive: true });
  for (const name of names) {
    await Deno.writeTextFile(`${path}/bin/${name}`, name, { mode: 0o700 });
  }
  await Deno.symlink("cni", `${path}/bin/ptp`);
  await Deno.link(`${path}/bin/cni`, `${path}/bin/hard`);
}

Deno.test("release: only the files of a release are replaced", async () => {
  await using directory = new Directory();
  await checkDirectory(`${directory.path}/missing`);
  for (const name of ["SHA256SUMS", "cni-plugins-1.2.3.cdx.json"]) {
    await Deno.writeTextFile(`${directory.path}/${name}`, "");
  }
  await checkDirectory(directory.path);
  await Deno.writeTextFile(`${directory.path}/thesis.txt`, "");
  await assertRejects(
    () => checkDirectory(directory.path),
    Error,
    "thesis.txt",
  );
});

Deno.test("release: a complete one replaces the one before and what interrupted ones left", async () => {
  await using directory = new Directory();
  const out = directory.path;
  const now = `${out}/.release_2/files`;
  for (const path of [`${out}/.release_1/x86_64/bin`, now]) {
    await Deno.mkdir(path, { recursive: true });
  }
  await Deno.writeTextFile(`${out}/cni-plugins-0.0.9.tgz`, "");
  await Deno.writeTextFile(`${out}/SHA256SUMS`, "0.0.9");
  await Deno.writeTextFile(`${now}/cni-plugins-1.2.3.tgz`, "");
  await Deno.writeTextFile(`${now}/SHA256SUMS`, "1.2.3");
  await replaceFiles(now, out);
  const names = await Array.fromAsync(Deno.readDir(out), ({ name }) => name);
  assertEquals(names.sort(), [
    ".release_2",
    "SHA256SUMS",
    "cni-plugins-1.2.3.tgz",
  ]);
  assertEquals(await Deno.readTextFile(`${out}/SHA256SUMS`), "1.2.3");
});

Deno.test("release: nothing runs any more when one of several programs has failed", async () => {
  await using directory = new Directory();
  const file = `${directory.path}/slow`;
  await assertRejects(
    () =>
      allEnded([
        run("false", []),
        run("sh", ["-c", `sleep 0.3; echo end > ${file}`]),
      ]),
    Error,
    'Cannot run "false ',
  );
  assertEquals(await Deno.readTextFile(file), "end\n");
});

const missing = ["tar", "gzip", "zstd"].filter((name) => !hasCommand(name));
const needs = missing.length > 0 ? ` (skipped: needs ${missing})` : "";

for (const kind of ARCHIVE_KINDS) {
  Deno.test({
    name: `release: ${kind} has the same bytes wherever it is made${needs}`,
    ignore: missing.length > 0,
    async fn(): Promise<void> {
      await using directory = new Directory();
      const made = await Promise.all(
        [["cni", "a", "b"], ["b", "cni", "a"]].map((names, at) =>
          archiveIn(`${directory.path}/${at}`, names, kind)
        ),
      );
      const [first, second] = await Promise.all(made.map(formatChecksum));
      assertEquals(first, second);
      const { stdout: listed } = await run("tar", ["-tvf", made[0] ?? ""], {
        env: { TZ: "UTC" },
      });
      assertEquals(
        listed.split("\n").map((line) => line.replace(/\s+/g, " ")),
        [
          "drwxr-xr-x 0/0 0 2023-11-14 22:13 content/",
          "drwxr-xr-x 0/0 0 2023-11-14 22:13 content/bin/",
          "-rwxr-xr-x 0/0 1 2023-11-14 22:13 content/bin/a",
          "-rwxr-xr-x 0/0 1 2023-11-14 22:13 content/bin/b",
          "-rwxr-xr-x 0/0 3 2023-11-14 22:13 content/bin/cni",
          "hrwxr-xr-x 0/0 0 2023-11-14 22:13 content/bin/hard link to content/bin/cni",
          "lrwxr-xr-x 0/0 0 2023-11-14 22:13 content/bin/ptp -> cni",
          "",
        ],
      );
    },
  });
}

async function archiveIn(
  directory: string,
  names: string[],
  kind: ArchiveKind,
): Promise<string> {
  await writeContent(`${directory}/content`, names);
  const path = `${directory}/content-1.2.3`;
  return await writeArchive(`${directory}/content`, path, kind, release.epoch);
}

Deno.test("release: the bill of materials names what is in the executable", async () => {
  const components = await listComponents();
  const names = components.map(({ name }) => name);
  for (const name of ["deno", "v8", "zod", "js-yaml"]) {
    assert(names.includes(name), name);
  }
  // For types and for tests only.
  for (const name of ["kubernetes-types", "@peculiar/x509"]) {
    assert(!names.includes(name), name);
  }
  const sbom = JSON.parse(formatSbom(release, components));
  assertEquals(sbom.components.length, components.length);
  const zod = sbom.components.find(({ name }: { name: string }) =>
    name === "zod"
  );
  assertEquals(zod.purl, `pkg:npm/zod@${zod.version}`);
  assertEquals(zod.licenses, [{ license: { id: "MIT" } }]);
  assertEquals([zod.hashes[0].alg, zod.hashes[0].content.length], [
    "SHA-512",
    128,
  ]);
  const crates = sbom.components
    .find(({ name }: { name: string }) => name === "deno").components;
  const { version, purl, hashes } = crates
    .find(({ name }: { name: string }) => name === "deno_core");
  assertEquals(purl, `pkg:cargo/deno_core@${version}`);
  assertEquals([hashes[0].alg, hashes[0].content.length], ["SHA-256", 64]);
  const notices = formatNotices(components);
  for (const { name, version, licenseText } of components) {
    assertStringIncludes(notices, `${name} ${version} (`);
    assertStringIncludes(notices, licenseText.trim());
    assert(/copyright/i.test(licenseText), name);
  }
});

Deno.test("release: the crates are those of the pinned Deno", async () => {
  const { engines } = node;
  const crates = await listCrates(engines.deno);
  assert(crates.length > 500, `${crates.length}`);
  for (const { name, version = "", sha256 } of crates) {
    assert(/^[\w-]+$/.test(name) && /^\d+\.\d+\.\d/.test(version), name);
    assert(/^[0-9a-f]{64}$/.test(sha256), name);
  }
  assertEquals(await listCrates("1.0.0"), []);
  const lock = `version = 4

[[package]]
name = "deno"
version = "2.9.6"
dependencies = [
 "libc",
]

[[package]]
name = "libc"
version = "0.2.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "00ff"
`;
  assertEquals(readCargoLock(lock), ["libc 0.2.1 00ff"]);
});

const noDpkg = !hasCommand("dpkg-deb");
Deno.test({
  name:
    "release: the package installs the plugins beside those of the machine" +
    (noDpkg ? " (skipped: needs dpkg-deb)" : ""),
  ignore: noDpkg,
  async fn(): Promise<void> {
    await using directory = new Directory();
    const debs = [];
    for (const at of [1, 2]) {
      const content = `${directory.path}/${at}/content`;
      await writeContent(content, ["cni"]);
      await addDocuments(content, release, []);
      debs.push(
        await writeDeb({
          release,
          architecture: "all",
          content,
          staging: `${directory.path}/${at}/deb`,
          out: `${directory.path}/${at}`,
        }),
      );
    }
    const [first = "", second = ""] = debs;
    assertEquals(await formatChecksum(first), await formatChecksum(second));
    const root = `${directory.path}/root`;
    await run("dpkg-deb", ["-x", first, root]);
    const read = (path: string): string =>
      Deno.readTextFileSync(`${root}/usr/${path}`);
    assertEquals(Deno.readLinkSync(`${root}/usr/lib/cni-plugins/ptp`), "cni");
    assertEquals(read("lib/cni-plugins/ptp"), "cni");
    assertEquals(read("bin/cni"), "cni");
    assertStringIncludes(read("share/doc/cni-plugins/copyright"), "Apache");
    const units = [...Deno.readDirSync(`${root}/usr/lib/systemd/system`)]
      .map(({ name }) => name).sort();
    // The daemon's unit is what `cni install` writes.
    assertEquals(units, [
      "cni-dhcp.service",
      "cni-dhcp.socket",
      "cni-findings.service",
      "cni-findings.timer",
      "cni-gc.service",
      "cni-gc.timer",
      "cni-metrics.service",
      "cni-metrics.timer",
    ]);
    // No plugin is replaced, unless cni install has been run before.
    const control = `${directory.path}/control`;
    await run("dpkg-deb", ["-e", first, control]);
    for (const name of ["postinst", "prerm"]) {
      await run("sh", ["-n", `${control}/${name}`]);
    }
    const postinst = Deno.readTextFileSync(`${control}/postinst`);
    assertStringIncludes(postinst, `[ "$1" = configure ] && [ -e $installed ]`);
    // Links of another program are not installed.
    const installed = `${directory.path}/installed.json`;
    const names = {
      cni: "1:2:3\nsha256:4",
      flannel: "link to .cni-install/others/flannel",
      old: "link to /opt/old",
      ptp: "link to cni",
    };
    await Deno.writeTextFile(installed, JSON.stringify(names, null, 2));
    const script = postinst.replace(/^installed=.*$/m, `installed=${installed}`)
      .replace("/usr/bin/cni", "echo");
    const ran = await run("sh", ["-c", script, "sh", "configure"]);
    assertEquals(ran.stdout, "install /opt/cni/bin --only cni,ptp,\n");
    assertEquals([...Deno.readDirSync(root)].map(({ name }) => name), ["usr"]);
    const fields = ["Package", "Version", "Depends"];
    assertEquals(
      (await run("dpkg-deb", ["-f", first, ...fields])).stdout,
      "Package: cni-plugins\nVersion: 1.2.3\n" +
        "Depends: libc6 (>= 2.27), libgcc-s1 | libgcc1\n",
    );
    const print = async (program: string, ...args: string[]): Promise<string> =>
      (await run(program, args)).stdout;
    const size = await print("dpkg-deb", "-f", first, "Installed-Size");
    const used = await print("du", "-sk", "--apparent-size", `${root}/usr`);
    // Each file may count as one more, and a directory as less.
    const inodes = await print("find", `${root}/usr`);
    const difference = Number(size) - Number.parseInt(used);
    assert(Math.abs(difference) < 4 * inodes.split("\n").length, size + used);
  },
});

Deno.test({
  name: `release: apt takes packages from its directory${
    noDpkg ? " (skipped: needs dpkg-deb)" : ""
  }`,
  ignore: noDpkg,
  async fn(): Promise<void> {
    await using directory = new Directory();
    const deb = "small_1.2.3_all.deb";
    const root = `${directory.path}/root`;
    await Deno.mkdir(`${root}/DEBIAN`, { recursive: true });
    const control = "Package: small\nVersion: 1.2.3\nArchitecture: all\n" +
      "Maintainer: nobody\nDescription: one line\n and another\n";
    await Deno.writeTextFile(`${root}/DEBIAN/control`, control);
    await run("dpkg-deb", ["--build", root, `${directory.path}/${deb}`]);
    const files = await writeRepository(release, [deb], directory.path);
    assertEquals(
      files,
      ["Packages", "Release"].map((name) => `${directory.path}/${name}`),
    );
    const [packages = "", text = ""] = await Promise.all(
      files.map((file) => Deno.readTextFile(file)),
    );
    const digest = await hexOfFile(`${directory.path}/${deb}`);
    assertStringIncludes(packages, `Filename: ./${deb}\n`);
    assertStringIncludes(packages, `SHA256: ${digest}\n`);
    assertEquals(packages.endsWith(control), true);
    assertStringIncludes(text, "Date: Tue, 14 Nov 2023 22:13:20 UTC\n");
    assertStringIncludes(text, "Architectures: all\n");
    const list = await hexOfFile(`${directory.path}/Packages`);
    assertStringIncludes(text, `\n ${list} ${packages.length} Packages\n`);
  },
});

/** Writes what is archived for any libc. */
async function writeAnyContent(path: string): Promise<void> {
  await writeContent(path, ["cni"]);
  await Deno.mkdir(`${path}/bin/.cni-lib`);
  for (const name of ["ld-linux-x86-64.so.2", "libc.so.6", "libc6.txt"]) {
    await Deno.writeTextFile(`${path}/bin/.cni-lib/${name}`, name);
  }
  for (const name of ["LICENSE", "THIRD-PARTY-NOTICES", "sbom.cdx.json"]) {
    await Deno.writeTextFile(`${path}/${name}`, name);
  }
}

/** Reads when files were changed last, links to them included. */
async function readChangeTimes(directory: string): Promise<string> {
  const args = [directory, "-type", "f", "-printf", "%p %C+\n"];
  return (await run("find", args)).stdout;
}

Deno.test({
  name: "release: images have the same bytes, and no base" + needs,
  ignore: missing.length > 0,
  async fn(): Promise<void> {
    await using directory = new Directory();
    const paths = [];
    for (const at of [1, 2]) {
      const path = `${directory.path}/${at}`;
      await writeAnyContent(`${path}/content`);
      await Deno.mkdir(`${path}/images`);
      const images = new Images(release, `${path}/images`);
      const before = await readChangeTimes(`${path}/content`);
      await images.add("x86_64-unknown-linux-gnu", "amd64", `${path}/content`);
      // An archive of the same files may be made at the same time.
      assertEquals(await readChangeTimes(`${path}/content`), before);
      await images.write(`${path}/images.tar`);
      paths.push(`${path}/images.tar`);
    }
    const [first = "", second = ""] = paths;
    assertEquals(await hexOfFile(first), await hexOfFile(second));
    const layout = `${directory.path}/layout`;
    await Deno.mkdir(layout);
    await run("tar", ["-xf", first, "-C", layout]);
    // deno-lint-ignore no-explicit-any -- a wrong path is a failed test
    const read = (digest: string): any =>
      JSON.parse(
        Deno.readTextFileSync(
          `${layout}/blobs/${digest.replace(":", "/")}`,
        ),
      );
    const { manifests } = JSON.parse(
      await Deno.readTextFile(`${layout}/index.json`),
    );
    const seen: Record<string, unknown> = {};
    for (const { annotations, digest } of manifests) {
      const [{ digest: only, platform }] = read(digest).manifests;
      assertEquals(platform, { architecture: "amd64", os: "linux" });
      const { layers, config } = read(only);
      const root = `${directory.path}/root`;
      await Deno.mkdir(root);
      for (const layer of layers) {
        const blob = `${layout}/blobs/${layer.digest.replace(":", "/")}`;
        await run("tar", ["-xf", blob, "-C", root]);
      }
      const { stdout: files } = await run("find", [root, "!", "-type", "d"]);
      const name = annotations["org.opencontainers.image.ref.name"];
      seen[name] = [
        read(config.digest).config.Entrypoint[0],
        ...files.trim().split("\n").map((path) => path.slice(root.length))
          .filter((path) => !path.startsWith("/usr")).sort(),
      ];
      await Deno.remove(root, { recursive: true });
    }
    const programs = ["/opt/cni/bin/cni", "/opt/cni/bin/multus"];
    const glibc = [
      "/lib/x86_64-linux-gnu/libc.so.6",
      "/lib64/ld-linux-x86-64.so.2",
      ...programs,
    ];
    const any = ["ld-linux-x86-64.so.2", "libc.so.6", "libc6.txt"]
      .map((name) => `/opt/cni/bin/.cni-lib/${name}`);
    assertEquals(seen, {
      "cni-plugins:1.2.3": ["/opt/cni/bin/cni", ...glibc],
      "cni-plugins:1.2.3-any": ["/opt/cni/bin/cni", ...any, ...programs],
      "multus:1.2.3": ["/opt/cni/bin/multus", ...glibc],
      "multus:1.2.3-any": ["/opt/cni/bin/multus", ...any, ...programs],
    });
  },
});

Deno.test("release: the chart's archive has the files of its directory", async () => {
  await using directory = new Directory();
  const charts = [];
  for (const at of [1, 2]) {
    const path = `${directory.path}/${at}`;
    await Deno.mkdir(path);
    charts.push(await writeChart(release, `${path}/staging`, path));
  }
  const [chart = "", again = ""] = charts;
  assertEquals(await hexOfFile(chart), await hexOfFile(again));
  await run("tar", ["-xf", chart, "-C", directory.path]);
  const unpacked = `${directory.path}/cni-plugins`;
  const { stdout } = await new Deno.Command("diff", {
    args: ["-rq", `${ROOT}deploy/chart`, unpacked],
  }).output();
  const differences = new TextDecoder().decode(stdout).trim().split("\n")
    .map((line) => line.replace(/^Only in .*: /, ""));
  const ignored = ["Containerfile", "README.md", "kustomization.yaml"];
  assertEquals(
    [...new Set(differences)].sort(),
    [
      ...[".helmignore", "LICENSE", "cni-dhcp.service", "cni-dhcp.socket"],
      ...ignored,
    ].sort(),
  );
});

Deno.test("the bill of materials names packages of jsr.io that an executable has", () => {
  const listed = listJsr([
    "https://jsr.io/@std/path/1.1.2/posix/join.ts",
    "https://jsr.io/@std/path/1.1.2/posix/dirname.ts",
    "https://jsr.io/@std/cli/1.0.20/parse_args.ts",
    "file:///checkout/main.ts",
  ]);
  assertEquals(listed.map(({ name, version, purl }) => [name, version, purl]), [
    ["@std/cli", "1.0.20", "pkg:jsr/%40std/cli@1.0.20"],
    ["@std/path", "1.1.2", "pkg:jsr/%40std/path@1.1.2"],
  ]);
});
