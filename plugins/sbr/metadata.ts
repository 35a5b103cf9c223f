/**
 * Metadata of sbr for tools. Its calls never load this file.
 *
 * @module
 */

import type {
  BuiltInMetadata,
  Linted,
} from "../../metadata/plugin_metadata.ts";
import example from "./example.json" with { type: "json" };
import { type Problem, warningAt } from "../../metadata/problem.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "sbr",
  kind: "chained",
  status: "stable",
  differences: [{ text: "link-local IPv6 routes remain in table main" }],
  lint,
  keys: () => ({
    summary: "sends replies through the interface that received the request",
    goPeer: "containernetworking/plugins plugins/meta/sbr",
    text:
      "Routes packets by their source: packets from an interface's addresses leave through that interface, whatever other networks the container is on. So replies leave through the interface that received the request, even if two networks have the same routes or the same subnet.",
    example,
    keys: {
      "table": {
        text:
          "The table for packets from the addresses. A different plugin fills it, such as an IPAM plugin with `table` in its routes. sbr does not change routes, and ignores the other two keys.",
        type: "integer from 1",
        default: "new tables",
        since: "1.6.0",
      },
      "gateways": {
        text:
          "Gateways, at most one per family. They take precedence over the addresses' gateways and the interface's default routes.",
        type: "list of strings",
        default: "none",
        since: "1.10.0",
      },
      "addSourceHints": {
        text:
          "Keeps the addresses' subnets in table main, with the address as source. Programs that do not choose a source address then reach these subnets directly, from the right address.",
        type: "boolean",
        default: "`false`",
        since: "1.10.0",
      },
    },
  }),
};

/** Numbers of the kernel's tables. Source: linux/rtnetlink.h. */
const KERNEL_TABLES: Readonly<Record<number, string>> = {
  253: "default",
  254: "main",
  255: "local",
};

/** See {@linkcode Lint}. */
function lint({ conf }: Linted): Problem[] {
  const name = KERNEL_TABLES[Number(conf["table"])];
  return name === undefined ? [] : [
    warningAt(["table"], `the table ${name} of the container itself`),
  ];
}
