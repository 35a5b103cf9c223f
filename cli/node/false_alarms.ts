/**
 * What CHECK of the Go plugins reports although nothing is wrong.
 *
 * @module
 */

import { findExecutable } from "../../cni/invoke/find.ts";
import { ifPossible } from "../../base/files/io.ts";
import { listAddresses, type NodeAttachment } from "./node_attachments.ts";
import { listCachedPlugins } from "./live.ts";
import type { NodeReader } from "./node_reader.ts";
import { isBuiltByGo } from "./elf_file.ts";
import { findValue } from "../../base/json/json.ts";

type CheckedAttachment = Pick<NodeAttachment, "config" | "result">;

/**
 * What CHECK reports, and when that is wrong.
 *
 * Source: containernetworking/plugins 1.1.1 and 1.10.0, `cmdCheck`.
 */
const FALSE_ALARMS: readonly [
  plugin: RegExp,
  msg: RegExp,
  isFalse: (attachment: CheckedAttachment, match: readonly string[]) => boolean,
][] = [
  // Until 1.1.1, the rules of one family are searched in both.
  [
    /^portmap$/,
    /^could not check ipv([46]) dnat: (.*)/,
    (attachment, [, family, rest = ""]) =>
      !hasFamily(attachment, family) ||
      family === "6" && /--to-destination \d+\./.test(rest),
  ],
  // sbr moves the route from the table in which it is searched.
  [
    /./,
    /^Failed to find Gateway \S+ for interface /,
    (attachment) =>
      listCachedPlugins(attachment).some((conf) =>
        findValue(conf, "type") === "sbr"
      ),
  ],
  // Until 1.1.1, the name of the interface is not filled in.
  [/^tuning$/, /^open \/proc\/sys\/\S*\bIFNAME\b/, () => true],
  // Until 1.1.1, it crashes without rates.
  [/^bandwidth$/, /nil pointer dereference/, () => true],
];

function hasFamily(
  attachment: CheckedAttachment,
  family: string | undefined,
): boolean {
  return listAddresses(attachment)
    .some((address) => address.includes(":") === (family === "6"));
}

/** Reports whether a difference is a false alarm of a Go plugin. */
export function isFalseAlarm(
  { directories: { pluginDirs } }: Pick<NodeReader, "directories">,
  attachment: CheckedAttachment,
  { plugin: type, msg }: { readonly plugin: string; readonly msg: string },
): boolean {
  const path = ifPossible(() => findExecutable(type, pluginDirs));
  return path !== undefined && isBuiltByGo(path) &&
    FALSE_ALARMS.some(([plugin, pattern, isFalse]) => {
      const match = plugin.test(type) ? pattern.exec(msg) : null;
      return match !== null && isFalse(attachment, match);
    });
}
