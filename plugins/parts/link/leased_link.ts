/**
 * Determines the owner of a link that neither an alias nor a prevResult names.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import { type JsonObject, parseJson } from "../../../base/json/json.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import type { Call } from "../../../cni/plugin.ts";
import { emptyResult } from "../../../cni/result/result.ts";
import { formatResult } from "../../../cni/result/encoding.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { listAddresses } from "./configure_link.ts";

/**
 * Checks with CHECK of the IPAM plugin whether the attachment has leased the
 * addresses of a link in the sandbox. Without an IPAM plugin, the only evidence is
 * that the link has the attachment's name and kind, so the result is true.
 *
 * The path of a sandbox might already lead to a different pod, and a DEL also follows
 * an ADD that failed because a different attachment has the name. Neither has a lease
 * for these addresses.
 */
export async function hasLeasedAddresses(
  call: Call,
  sandbox: Rtnl,
  link: Link,
): Promise<boolean> {
  const type = call.config.ipam?.type;
  if (!type) return true;
  const { args, cniVersion } = call;
  const addresses = listAddresses(sandbox, link)
    .map(({ address }) => address).filter(({ ip }) => !ip.isLinkLocal);
  const prevResult = parseJson(formatResult({
    ...emptyResult(),
    interfaces: [{ name: link.name, sandbox: args.netns }],
    ips: addresses.map((address) => ({ address, interface: 0 })),
  }, cniVersion)) as JsonObject;
  const config = parseJson(call.stdin) as JsonObject;
  try {
    await call.delegate(type, encodeJson({ ...config, prevResult })).check();
    return true;
  } catch (error) {
    call.log.warn(
      "Keeping an interface that might belong to a different attachment",
      {
        name: link.name,
        problem: describeError(error),
      },
    );
    return false;
  }
}
