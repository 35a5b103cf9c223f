/**
 * Finds import cycles in the product.
 *
 * Modules that import each other can only be understood together, even if they
 * share nothing but types. Their initialization order is also hard to predict.
 *
 * @module
 */

import { ROOT_URL, run, runDeno } from "./project.ts";
import { isProduct, PRODUCT } from "./lint/project_files.ts";
import { importFlags } from "./import_flags.ts";

/** Which modules each module imports. */
type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** The part of the output of `deno info --json` that is read. */
interface ModuleInfo {
  readonly modules: readonly {
    readonly specifier: string;
    /** Of each import, `code` if it is of values, else `type`. */
    readonly dependencies?: readonly {
      readonly code?: { readonly specifier?: string };
      readonly type?: { readonly specifier?: string };
    }[];
  }[];
}

/**
 * Finds a cycle.
 *
 * @returns Its modules in the order of import, the first one repeated at the end
 */
export function findCycle(graph: ImportGraph): string[] | undefined {
  const done = new Set<string>();

  function search(
    module: string,
    path: readonly string[],
  ): string[] | undefined {
    if (path.includes(module)) {
      return [...path.slice(path.indexOf(module)), module];
    }
    if (done.has(module)) return undefined;
    done.add(module);
    for (const imported of graph.get(module) ?? []) {
      const cycle = search(imported, [...path, module]);
      if (cycle) return cycle;
    }
    return undefined;
  }

  for (const module of graph.keys()) {
    const cycle = search(module, []);
    if (cycle) return cycle;
  }
  return undefined;
}

/** Reads the imports, of types and of values, from `deno info --json`. */
export function parseModuleInfo(json: string): ImportGraph {
  const { modules } = JSON.parse(json) as ModuleInfo;
  return new Map(modules.map(({ specifier, dependencies = [] }) => [
    specifier,
    dependencies.flatMap(({ code, type }) =>
      [code, type].flatMap((found) => found?.specifier ?? [])
    ),
  ]));
}

/** Returns the imports among all modules of the product. */
async function readImportGraph(): Promise<ImportGraph> {
  const { stdout: paths } = await run("find", [...PRODUCT, "-name", "*.ts"]);
  const source = paths.split("\n").filter(isProduct)
    .map((path) => `import ${JSON.stringify(new URL(path, ROOT_URL).href)};`)
    .join("");
  const entry = `data:application/typescript,${encodeURIComponent(source)}`;
  const { stdout } = await runDeno(
    ["info", "--json", ...await importFlags(), entry],
  );
  return parseModuleInfo(stdout);
}

if (import.meta.main) {
  const cycle = findCycle(await readImportGraph());
  if (cycle) {
    console.error(cycle.join("\n  imports ").replaceAll(ROOT_URL.href, ""));
    Deno.exitCode = 1;
  }
}
