/**
 * The ends of probes: addresses of containers, with their open namespaces.
 *
 * @module
 */

import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { NodeAttachment } from "../attachments/node_attachments.ts";
import { getTarget } from "../attachments/target.ts";
import type { Node } from "../doctor/node.ts";
import {
  describeEndpoint,
  type Endpoint,
  listStarts,
} from "../doctor/path/endpoint.ts";

/** Endpoints with their open namespaces. */
export class Endpoints implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #node: Node;
  /** All that were added. */
  readonly all: Endpoint[] = [];

  /** @param node Borrowed, not closed */
  constructor(node: Node) {
    this.#node = node;
  }

  /**
   * Adds all addresses of a namespace.
   *
   * @param name The container's name if it is not in the cache
   * @throws {SyscallError} If the namespace cannot be opened
   */
  add(
    netns: string,
    attachments: readonly NodeAttachment[],
    name?: string,
  ): Endpoint[] {
    const sandbox = this.#stack.use(Rtnl.open(netns));
    const found = listStarts(netns, attachments)
      .map((start) => describeEndpoint(this.#node, sandbox, start, name));
    this.all.push(...found);
    return found;
  }

  /**
   * Adds all addresses of a container or a namespace that a person names.
   *
   * @throws {Error} If it is unknown, cannot be opened, or has no address
   */
  addNamed(name: string): Endpoint[] {
    const { netns, attachments } = getTarget(name, this.#node.directories);
    if (netns === "") throw new Error(`The namespace of "${name}" is unknown`);
    let found: Endpoint[];
    try {
      found = this.add(netns, attachments, name);
    } catch (cause) {
      const reason = isMissingNetns(cause) ? ": its namespace is gone" : "";
      throw new Error(`Cannot look into "${name}"${reason}`, { cause });
    }
    if (found.length > 0) return found;
    throw new Error(`"${name}" has no address: no plugin has attached it`);
  }

  /** Closes the namespaces. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}
