/**
 * `cni cluster-gc`: shows and releases addresses of deleted pods. `cni
 * release`: releases the addresses of an IPAMClaim.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { findPrompt, type Prompt } from "../../../base/command_line/prompt.ts";
import {
  type CommandCall,
  type FlagValues,
  type Output,
  readDuration,
} from "../../../base/command_line/command.ts";
import {
  type Column,
  formatListing,
} from "../../../base/command_line/table.ts";
import { refuse } from "../../../base/command_line/usage_error.ts";
import { deadline, JoinedSignal, pause } from "../../../base/deadline.ts";
import { formatDuration } from "../../../base/duration.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { createLog } from "../../../base/log/log.ts";
import type { Environment } from "../../../base/process/environment.ts";
import { findServer } from "../../../kube/in_cluster.ts";
import { readNamespace } from "../../../kube/kubeconfig.ts";
import { type ApiClient, WhereaboutsApi } from "../api.ts";
import type { CLUSTER_GC_FLAGS, RELEASE_FLAGS } from "./flags.ts";
import { findClaimKey, PERSISTENCE } from "../claims/ipam_claim.ts";
import { DEFAULT_NAMESPACE, openOwnClient } from "../session.ts";
import { readFlatFile } from "../settings.ts";
import {
  endClaims,
  findClaimAddresses,
  releaseClaimAddresses,
} from "./claims.ts";
import { releaseStale, renew } from "./release.ts";
import type { Released } from "./released.ts";
import {
  staleInBoth,
  type Survey,
  type SurveyOptions,
  surveyPools,
} from "./survey.ts";

/** A row of the output. */
interface Row {
  /** An address, or the name of a reservation. */
  readonly what: string;
  /** `IPPool NAME` or `reservation`. */
  readonly where: string;
  readonly pod: string;
  readonly why: string;
  readonly problem?: string | undefined;
}

/** Allocations above which a pool approaches the size limit of objects in etcd. */
const LARGE_POOL = 5000;

/** Compares the pools with the pods. With `--yes`, releases stale addresses. */
export async function clusterGc(
  call: CommandCall<FlagValues<typeof CLUSTER_GC_FLAGS>>,
): Promise<Output> {
  const { flags, env, onStderr } = call;
  if (flags.yes && flags["dry-run"]) {
    throw refuse(call.command, "use either --yes or --dry-run");
  }
  const graceMs = readDuration(call, "grace");
  // The pause does not count.
  using limit = new JoinedSignal(
    call.timeoutMs === 0 ? undefined : deadline(call.timeoutMs + graceMs),
    call.interrupt,
  );
  const { signal } = limit;
  const { kubeconfig, namespace: given } = flags;
  const access = await openPools({ kubeconfig, namespace: given, env });
  using client = access.client;
  const { namespace } = access;
  const log = createLog({ component: "cluster-gc" }, onStderr);
  const options = { client, namespace, log, signal };
  const first = await surveyPools(options);
  const ended: readonly Released<Survey["expiry"]["expired"][number]>[] =
    flags.yes
      ? await endClaims(first.expiry, client, signal)
      : first.expiry.expired.map((what) => ({ what }));
  const hasEnded = ended.some(({ problem }) => problem === undefined);
  const survey = flags.yes
    ? await surveyAgain(first, hasEnded, options, graceMs)
    : first;
  if (!flags.yes) {
    const rows = [
      ...ended.map(describeEnded),
      ...listRows(
        survey.records.map((what) => ({ what })),
        survey.reservations.map((what) => ({ what })),
      ),
    ];
    const listed = flags["dry-run"]
      ? [...rows, ...survey.held.map(rowOfHeld)]
      : rows;
    return {
      json: {
        namespace,
        pools: survey.pools,
        stale: rows,
        held: survey.held,
      },
      text: listed.length
        ? formatListing(flags, COLUMNS, listed, ({ what }) => what)
        : "",
      note: formatNote(
        survey,
        rows.length === 0
          ? nothingStale(survey, namespace)
          : "nothing was released; use --yes",
      ),
      exitCode: flags["exit-code"] && rows.length > 0 ? 1 : 0,
    };
  }
  const api = new WhereaboutsApi(client, namespace, { signal });
  const { records, reservations } = await releaseStale(survey, api);
  const renewed = await renew(survey, api);
  const rows = [
    ...ended.map(describeEnded),
    ...listRows(records, reservations),
    ...renewed.filter(({ problem }) => problem !== undefined)
      .map(describeUnrenewed),
  ];
  const kept = rows.filter(({ problem }) => problem !== undefined);
  const count = rows.length - kept.length;
  return {
    json: {
      namespace,
      pools: survey.pools,
      released: rows.filter(({ problem }) => problem === undefined),
      kept,
      held: survey.held,
      renewed: renewed.filter(({ problem }) => problem === undefined)
        .map(({ what }) => what),
    },
    text: rows.map(formatRow).join("\n"),
    note: formatNote(
      survey,
      rows.length === 0
        ? nothingStale(survey, namespace)
        : `released ${count} of ${rows.length}`,
    ),
    exitCode: kept.length > 0 ? 1 : 0,
  };
}

/**
 * Compares again after a pause if something is stale. A pod that was deleted by force,
 * or that has just ended, might still have its interfaces during the pause.
 */
async function surveyAgain(
  given: Survey,
  hasEnded: boolean,
  options: SurveyOptions,
  graceMs: number,
): Promise<Survey> {
  const { log, signal } = options;
  // The addresses of the deleted claims are now stale.
  const first = hasEnded ? await surveyPools(options) : given;
  const { records, reservations } = first;
  const isClean = records.length + reservations.length === 0;
  if (isClean || graceMs === 0) return first;
  log.info("Checking again before addresses are released", {
    after: formatDuration(graceMs),
  });
  await pause(graceMs, signal);
  signal.throwIfAborted();
  return staleInBoth(first, await surveyPools(options));
}

function listRows(
  records: readonly Released<Survey["records"][number]>[],
  reservations: readonly Released<Survey["reservations"][number]>[],
): Row[] {
  return [
    ...records.map(({ what, problem }) => ({
      what: what.ip,
      where: `IPPool ${what.pool}`,
      pod: formatOwner(what.value),
      why: what.why,
      ...problem !== undefined && { problem },
    })),
    ...reservations.map(({ what, problem }) => ({
      what: what.name,
      where: "reservation",
      pod: what.podref,
      why: what.why,
      ...problem !== undefined && { problem },
    })),
  ];
}

/** Names the pod or the claim of a record. */
function formatOwner(value: Survey["records"][number]["value"]): string {
  const claim = findClaimKey(value);
  return claim ? `${claim.namespace}/${claim.name}` : value.podref;
}

/** Describes an IPAMClaim that ends. */
function describeEnded(
  { what: { claim: { metadata }, why }, problem }: Released<
    Survey["expiry"]["expired"][number]
  >,
): Row {
  const { namespace = "", name = "", annotations } = metadata ?? {};
  const pod = `${namespace}/${annotations?.[PERSISTENCE.pod] ?? ""}`;
  return {
    what: name,
    where: "IPAMClaim",
    pod,
    why,
    ...problem !== undefined && { problem },
  };
}

/** Describes a reservation that could not be created again. */
function describeUnrenewed({ what, problem }: Released<string>): Row {
  const why = "a different program deleted it";
  return { what, where: "reservation", pod: "", why, problem };
}

/** Describes an address that is not released. */
function rowOfHeld(
  { ip, pool, claim, pod, why }: Survey["held"][number],
): Row {
  return { what: ip, where: `IPPool ${pool}`, pod: pod || claim, why };
}

function formatRow({ what, where, pod, problem }: Row): string {
  const about = `${what} (${where})${pod === "" ? "" : ` of ${pod}`}`;
  return problem === undefined
    ? `released ${about}`
    : `kept ${about}: ${problem}`;
}

function nothingStale({ pools }: Survey, namespace: string): string {
  return pools.length > 0
    ? "every address belongs to a pod"
    : `the namespace "${namespace}" has none; --namespace names another`;
}

function formatNote({ pools, held }: Survey, outcome: string): string {
  const total = pools.reduce((sum, { allocations }) => sum + allocations, 0);
  const large = pools.filter(({ allocations }) => allocations > LARGE_POOL)
    .map(({ pool, allocations }) =>
      `IPPool ${pool} has ${allocations} allocations; the API server refuses ` +
      "pools from about 7500 on"
    );
  const claimed = held.filter(({ claim }) => claim !== "").length;
  const aside = held.length - claimed;
  const kinds = [
    ...claimed > 0 ? [`, ${claimed} of them for IPAMClaims`] : [],
    ...aside > 0 ? [`, ${aside} set aside`] : [],
  ].join("");
  const counted = `${count(total, "address", "addresses")} in ${
    count(pools.length, "pool", "pools")
  }${kinds}: ${outcome}`;
  return [...large, counted].join("\n");
}

function count(number: number, one: string, several: string): string {
  return `${number} ${number === 1 ? one : several}`;
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "ADDRESS", cell: ({ what }) => what },
  { heading: "WHERE", cell: ({ where }) => where },
  { heading: "POD", cell: ({ pod }) => pod, narrow: "middle" },
  { heading: "WHY", cell: ({ why }) => why, narrow: "below" },
];

/** Releases the addresses of a claim, after a prompt. */
export async function releaseClaim(
  { args: [claim = ""], flags, env, signal, command }: CommandCall<
    FlagValues<typeof RELEASE_FLAGS>
  >,
  ask: Prompt | undefined = findPrompt(),
): Promise<Output> {
  const [namespace = "", name = "", ...more] = claim.split("/").length === 1
    ? ["default", claim]
    : claim.split("/");
  if (namespace === "" || name === "" || more.length > 0) {
    throw refuse(command, `"${claim}" is not NAMESPACE/NAME of an IPAMClaim`);
  }
  const access = await openPools({ ...flags, env });
  using client = access.client;
  const pools = access.namespace;
  const place = { client, pools, namespace, name, signal };
  const ofClaim = await findClaimAddresses(place);
  const { reservations, addresses, pod } = ofClaim;
  const json = { namespace, name, addresses, pod: pod ?? "" };
  if (addresses.length + reservations.length === 0) {
    return {
      json: { ...json, released: false },
      text: "",
      note: `IPAMClaim ${namespace}/${name} has no addresses`,
    };
  }
  const list = addresses.join(", ");
  if (pod !== undefined) {
    throw new CniError(
      ErrorCode.TryAgainLater,
      `pod "${namespace}/${pod}" uses IPAMClaim "${namespace}/${name}"`,
      { details: `${list}: delete the pod first` },
    );
  }
  if (!flags.yes) {
    if (ask === undefined) throw refuse(command, "use --yes, or a terminal");
    const question = `Release ${list} of IPAMClaim ${namespace}/${name}?`;
    if (!/^y(es)?$/i.test(ask(question, "no"))) {
      return {
        json: { ...json, released: false },
        text: "",
        note: "nothing was released",
      };
    }
  }
  await releaseClaimAddresses(place, ofClaim);
  return {
    json: { ...json, released: true },
    text: `released ${list} of IPAMClaim ${namespace}/${name}`,
  };
}

/** How to find the cluster. */
interface AccessOptions {
  /** Path of a kubeconfig. */
  readonly kubeconfig?: string | undefined;
  /** Namespace of the pools. */
  readonly namespace?: string | undefined;
  readonly env: Environment;
}

/** A cluster with pools. */
interface PoolAccess {
  readonly client: ApiClient;
  readonly namespace: string;
}

/**
 * Opens a client. The kubeconfig is the given one, the file in `KUBECONFIG`,
 * the service account of a pod, the kubeconfig that whereabouts' flat file
 * names, or `~/.kube/config`.
 *
 * @throws {CniError} 7 if it is missing or unusable
 */
async function openPools(options: AccessOptions): Promise<PoolAccess> {
  const { env } = options;
  const kubeconfig = findKubeconfig(options);
  const client = await openOwnClient({ kubeconfig, env });
  if (client === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "no cluster: name a kubeconfig with --kubeconfig or KUBECONFIG",
    );
  }
  const namespace = options.namespace || env["WHEREABOUTS_NAMESPACE"] ||
    (kubeconfig && await readNamespace(kubeconfig)) || DEFAULT_NAMESPACE;
  return { client, namespace };
}

function findKubeconfig(
  { kubeconfig, env }: AccessOptions,
): string | undefined {
  const named = kubeconfig || env["KUBECONFIG"]?.split(":")[0];
  if (named || findServer(env) !== undefined) return named;
  const flat = readFlatFile()?.kubernetes?.kubeconfig;
  const home = join(env["HOME"] || "/", ".kube/config");
  const isThere = ifPossible(() => Deno.statSync(home).isFile);
  return flat ?? (isThere ? home : undefined);
}
