/**
 * `cni new plugin`: creates a project with a plugin, its test and a network.
 *
 * @module
 */

import { dirname, join, resolve } from "@std/path/posix";
import { ifPossible, withIoFailure } from "../../base/files/io.ts";
import { splitPath } from "../../cni/invoke/find.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import { CURRENT_VERSION } from "../../cni/version.ts";
import { pluginNames } from "../../plugins/registry.ts";
import type { Output } from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import type { CniCall } from "../flags.ts";
import {
  loadTemplates,
  type TemplateKind,
  type Templates,
} from "./templates.ts";

/** Writes the files into a new directory of the plugin's name. */
export async function newPlugin(call: CniCall): Promise<Output> {
  const [name = ""] = call.args;
  const { command, flags } = call;
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    throw refuse(
      command,
      `NAME must be lower-case letters, digits and dashes, not "${name}"`,
    );
  }
  if (pluginNames.includes(name)) {
    throw refuse(command, `"${name}" is a plugin of this project`);
  }
  if (flags.chained && flags.ipam) {
    throw refuse(command, "use --chained or --ipam, not both");
  }
  const kind = flags.chained ? "chained" : flags.ipam ? "ipam" : "main";
  const templates = (await loadTemplates())[kind];
  const checkout = flags.checkout ?? findCheckout();
  const files = makeFiles(templates, kind, name, checkout);
  const directory = resolve(name);
  withIoFailure(`create "${directory}"`, () => Deno.mkdirSync(directory));
  for (const [file, content] of Object.entries(files)) {
    const path = join(directory, file);
    withIoFailure(
      `write "${path}"`,
      () => {
        Deno.mkdirSync(dirname(path), { recursive: true });
        Deno.writeTextFileSync(path, content);
      },
    );
  }
  const names = Object.keys(files);
  return {
    json: { name, kind, directory, files: names },
    text: `Created ${directory} with ${names.join(", ")}\n` +
      `Test it as root: cd ${name} && ${nameDeno(call)} task test`,
    ...checkout === undefined && {
      note: `It imports ${PUBLISHED}. If jsr.io is unreachable or does not ` +
        "contain it yet, name a checkout with --checkout",
    },
  };
}

/**
 * Finds a checkout of this project: the one that this executable was built in,
 * or that the command runs in.
 */
function findCheckout(): string | undefined {
  const directories = [resolve(dirname(Deno.execPath()), "../..")];
  for (let directory = Deno.cwd(); directory !== dirname(directory);) {
    directories.push(directory);
    directory = dirname(directory);
  }
  return directories.find((directory) => {
    const project = ifPossible(() => readObject(join(directory, "deno.json")));
    return project?.["name"] === "@cni/plugins";
  });
}

/** Names the command that runs Deno, which need not be installed. */
function nameDeno({ env }: CniCall): string {
  const isInstalled = splitPath(env["PATH"] ?? "")
    .some((directory) => ifPossible(() => Deno.statSync(`${directory}/deno`)));
  return isInstalled ? "deno" : `npx --yes deno@${Deno.version.deno}`;
}

function makeFiles(
  templates: Templates,
  kind: TemplateKind,
  name: string,
  checkout: string | undefined,
): Record<string, string> {
  const ident = name.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase());
  const fill = (text: string): string =>
    text.replaceAll("NAME", name).replaceAll("IDENT", `${ident}Plugin`);
  const plugins = listPlugins(kind, name);
  const network = { cniVersion: CURRENT_VERSION, name: `${name}-net`, plugins };
  return {
    ...Object.fromEntries(
      Object.entries(templates).map(([file, text]) => [file, fill(text)]),
    ),
    [`10-${name}.conflist`]: formatJson(network),
    ...checkout === undefined
      ? configurePublished(name)
      : configureCheckout(name, resolve(checkout)),
  };
}

const HOST_LOCAL = { type: "host-local", subnet: "10.88.0.0/24" };

/** Returns the plugins of the example network. */
function listPlugins(kind: TemplateKind, type: string): object[] {
  switch (kind) {
    case "main":
      return [{ type, ipam: HOST_LOCAL }];
    case "chained":
      return [{ type: "ptp", ipam: HOST_LOCAL }, { type }];
    case "ipam":
      return [{ type: "ptp", ipam: { type, subnet: "10.88.0.0/24" } }];
  }
}

function formatJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** The published package. */
const PUBLISHED = `jsr:@cni/plugins@^${PLUGINS_VERSION}`;

/** Imports the published package. */
function configurePublished(name: string): Record<string, string> {
  const config = {
    nodeModulesDir: "none",
    tasks: {
      test: "deno test -A",
      compile: `deno compile -A --no-code-cache -o dist/${name} main.ts`,
    },
    imports: {
      "@cni/plugins": PUBLISHED,
      "zod": "npm:zod@^4",
    },
  };
  return { "deno.json": formatJson(config) };
}

/**
 * Imports a checkout. Its modules have a deno.json of their own, which only an
 * import map on the command line overrides.
 */
function configureCheckout(
  name: string,
  checkout: string,
): Record<string, string> {
  const imports = readImports(checkout);
  const compile = `deno task --cwd ${checkout} compile`;
  const config = {
    nodeModulesDir: "none",
    tasks: {
      test: "deno test -A --import-map=import_map.json",
      compile:
        `${compile} --plugin $PWD/main.ts --name ${name} --out $PWD/dist`,
    },
  };
  return {
    "deno.json": formatJson(config),
    "import_map.json": formatJson({ imports }),
    // An editor's language server takes it from there, as from the flag.
    ".vscode/settings.json": formatJson({
      "deno.enable": true,
      "deno.importMap": "./import_map.json",
    }),
  };
}

/**
 * Reads the imports of a checkout. Packages of jsr.io become the checkout's
 * stand-ins, so that jsr.io need not be reachable.
 *
 * @throws {CniError} 5 to 7 If the directory is not a checkout of this project
 */
function readImports(checkout: string): Record<string, string> {
  const project = readObject(join(checkout, "deno.json"));
  const standIns = readImportsOf(
    join(checkout, "scripts/offline/import_map.json"),
  );
  const locate = (directory: string) => ([key, path]: [string, string]) =>
    [key, path.startsWith(".") ? join(directory, path) : path] as const;
  const own = Object.entries(project["exports"] ?? {}).map((
    [key, path],
  ) => [`@cni/plugins${key.slice(1)}`, join(checkout, String(path))] as const);
  return Object.fromEntries([
    ...Object.entries(toTexts(project["imports"]))
      .filter(([, target]) => !target.startsWith("jsr:")),
    ...Object.entries(standIns).map(locate(join(checkout, "scripts/offline"))),
    ...own,
  ]);
}

function readImportsOf(file: string): Record<string, string> {
  return toTexts(readObject(file)["imports"]);
}

function readObject(file: string): JsonObject {
  const bytes = withIoFailure(`read "${file}"`, () => Deno.readFileSync(file));
  const document = parseJson(bytes, `"${file}"`);
  if (isObject(document)) return document as JsonObject;
  throw new Error(`Cannot read "${file}": expected an object`);
}

function toTexts(value: unknown): Record<string, string> {
  return (value ?? {}) as Record<string, string>;
}
