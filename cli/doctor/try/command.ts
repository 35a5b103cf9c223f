/**
 * `cni doctor --try`: tests each network, and shows which end reaches which.
 *
 * @module
 */

import {
  NodeReader,
  type NodeReaderOptions,
  type Replaced,
} from "../../node/node_reader.ts";
import { drawTrials } from "./svg.ts";
import { type Party, type Reach, runTrial, type Trial } from "./trial.ts";
import type { CniCall } from "../../flags.ts";
import { readDirectories } from "../../node/network.ts";
import type { Output } from "../../../base/command_line/command.ts";
import { showControls, type Style } from "../../../base/command_line/style.ts";
import { formatTable, wrap } from "../../../base/command_line/table.ts";
import { writeTarget } from "../../written_file.ts";

/** Tests each network. */
export async function tryNetworks(
  call: CniCall,
  replaced: Replaced,
): Promise<Output> {
  const { env, signal, flags } = call;
  const directories = readDirectories(call);
  const options: NodeReaderOptions = { ...replaced, directories, env, signal };
  using node = new NodeReader(options);
  const trials: Trial[] = [];
  const seen = new Set<string>();
  for (const network of node.networks) {
    if (seen.has(network.name)) continue;
    seen.add(network.name);
    call.onProgress?.(`Trying ${network.name}`);
    trials.push(await runTrial(network, options));
  }
  const isWell = trials.every(isGood);
  const ok = isWell && trials.some(({ skipped }) => skipped === null);
  const json = { version: 1, ok, networks: trials };
  const exitCode = isWell ? ok ? 0 : 3 : 1;
  const { svg } = flags;
  const text = (style: Style): string =>
    format(trials, directories.confDir, style);
  if (svg === undefined) return { json, text, exitCode };
  const picture = drawTrials(trials);
  if (svg === "-") return { json, text: picture.trimEnd(), exitCode };
  writeTarget(svg, picture);
  return { json, text, exitCode, note: `Wrote ${svg}` };
}

/** Reports whether nothing of a trial failed. */
function isGood({ attempts, failures }: Trial): boolean {
  return failures.length === 0 && attempts.every(({ reached }) => reached);
}

function format(
  trials: readonly Trial[],
  confDir: string,
  style: Style,
): string {
  if (trials.length === 0) return `There is no network in ${confDir}`;
  const bad = trials.filter((trial) => !isGood(trial));
  const tried = trials.filter(({ skipped }) => skipped === null);
  const verdict = bad.length > 0
    ? style.red(
      `${bad.map(({ network }) => network).join(", ")}: something failed`,
    )
    : tried.length === 0
    ? style.yellow("No network could be tested")
    : style.green(
      tried.length === 1
        ? "The network works"
        : `All ${tried.length} networks work`,
    );
  return [...trials.map((one) => formatTrial(one, style)), verdict]
    .join("\n\n");
}

const INDENT = "  ";
const PARTIES: readonly Party[] = [
  "A",
  "B",
  "node",
  "gateway",
  "outside",
  "name",
];
const NAMES: Readonly<Record<Party, string>> = {
  A: "A",
  B: "B",
  node: "node",
  gateway: "gateway",
  outside: "outside",
  name: "name server",
};

function formatTrial(trial: Trial, style: Style): string {
  const { network, file, skipped, addresses, attempts, failures } = trial;
  const title = style.bold(showControls(`${network} (${file})`));
  if (skipped !== null) return `${title}: not tested: ${skipped}`;
  const width = Math.max((style.width ?? Infinity) - INDENT.length, 40);
  const lines = (text: string): string[] =>
    wrap(showControls(text), width).map((line) => INDENT + line);
  const [a = [], b = []] = addresses;
  const ends = addresses.length < 2 || a.length + b.length === 0
    ? []
    : lines(`A is ${a.join(", ")}; B is ${b.join(", ")}`);
  const from = (["A", "B", "node"] as const).filter((party) =>
    attempts.some((one) => one.from === party)
  );
  const columns = PARTIES.filter((party) =>
    attempts.some(({ to }) => to === party)
  );
  const table = attempts.length === 0 ? [] : formatTable(
    [
      { heading: "FROM", cell: (party: Party) => NAMES[party] },
      ...columns.map((to) => ({
        heading: NAMES[to].toUpperCase(),
        cell: (party: Party) => describe(between(attempts, party, to)),
        mark: (party: Party, { red, green }: Style) =>
          between(attempts, party, to).every(({ reached }) => reached)
            ? green
            : red,
      })),
    ],
    from,
    style,
  ).split("\n").map((line) => INDENT + line);
  const lost = attempts.filter(({ reached }) => !reached).map((one) =>
    `${NAMES[one.from]} did not reach ` +
    `${NAMES[one.to]} ${one.address}: ${one.error ?? "no answer"}`
  );
  return [
    title,
    ...ends,
    ...table,
    ...lost.flatMap((text) => lines(text)),
    ...failures.flatMap(({ command, message }) =>
      lines(command === "left" ? message : `${command} failed: ${message}`)
    ),
    ...trial.stops.flatMap(({ at, text, fix, advice }) => [
      ...lines(`stopped at ${at}: ${text}`),
      ...fix === null ? [] : [`${INDENT}${INDENT}fix:  ${showControls(fix)}`],
      ...fix !== null || advice === null
        ? []
        : [`${INDENT}${INDENT}do:   ${showControls(advice)}`],
    ]),
    ...lost.length > 0 && trial.stops.length === 0
      ? lines(
        "nothing on this node is known to stop it: run cni doctor, and " +
          "check beyond the node",
      )
      : [],
    ...failures.length === 0
      ? lines(`ADD took ${trial.addMilliseconds} ms; CHECK and DEL succeeded`)
      : [],
  ].join("\n");
}

function between(
  attempts: readonly Reach[],
  from: Party,
  to: Party,
): readonly Reach[] {
  return attempts.filter((one) => one.from === from && one.to === to);
}

/** Returns the outcome of attempts of both families in a word. */
function describe(some: readonly Reach[]): string {
  const reached = some.filter((one) => one.reached);
  if (some.length === 0) return "";
  if (reached.length === some.length) {
    const longest = Math.max(...some.map(({ milliseconds }) => milliseconds));
    return `ok ${longest} ms`;
  }
  if (reached.length === 0) return "no";
  return reached.some(({ address }) => address.includes(":"))
    ? "IPv6 only"
    : "IPv4 only";
}
