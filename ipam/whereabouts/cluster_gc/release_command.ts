/**
 * `cni release`: releases the addresses of an IPAMClaim.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { openPools } from "./access.ts";
import { findHoldings, releaseHoldings } from "./release_claim.ts";
import { type Ask, findAsk } from "../../../base/command_line/ask.ts";
import type {
  CommandCall,
  FlagValues,
  Output,
} from "../../../base/command_line/command.ts";
import { refuse } from "../../../base/command_line/usage_error.ts";
import type { RELEASE_FLAGS } from "./flags.ts";

/** Releases the addresses, after a question. */
export async function releaseClaim(
  { args: [claim = ""], flags, env, signal, command }: CommandCall<
    FlagValues<typeof RELEASE_FLAGS>
  >,
  ask: Ask | undefined = findAsk(),
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
  const holdings = await findHoldings(place);
  const { records, reservations, ips, pod } = holdings;
  const addresses = [
    ...new Set([
      ...records.map(({ ip }) => String(ip)),
      ...ips.map((one) => one.split("/")[0] ?? ""),
    ]),
  ];
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
      { details: `${list}: end the pod first` },
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
  await releaseHoldings(place, holdings);
  return {
    json: { ...json, released: true },
    text: `released ${list} of IPAMClaim ${namespace}/${name}`,
  };
}
