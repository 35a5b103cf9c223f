/**
 * A throw-away host with two cables to its sandbox, `veth0` and `veth1`, each
 * with an address of both families.
 *
 * @module
 */

import { inNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { Cidr } from "../../net/cidr.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/** The host, and a socket in it. */
export class TwoCables implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts: TestHosts = this.#stack.use(TestHosts.create());
  readonly rtnl: Rtnl = this.#stack.use(Rtnl.open(this.hosts.host.path));
  /** The index of `veth0`, which has 10.0.0.1/24 and 2001:db8:0::1/64. */
  readonly first: number;
  /** The index of `veth1`, which has 10.0.1.1/24 and 2001:db8:1::1/64. */
  readonly second: number;

  constructor() {
    // Link-local addresses and their routes would come later.
    const key = "net/ipv6/conf/default/addr_gen_mode";
    inNetns(this.hosts.host, () => writeSysctl(key, "1"));
    this.first = this.#addVeth("veth0", 0);
    this.second = this.#addVeth("veth1", 1);
  }

  #addVeth(name: string, at: number): number {
    const { sandbox } = this.hosts;
    const peer = { netns: sandbox, name };
    const { index } = this.rtnl.link.addVeth({ name, peer });
    runIn(sandbox, "ip", "link", "set", name, "up");
    for (const text of [`10.0.${at}.1/24`, `2001:db8:${at}::1/64`]) {
      const address = Cidr.parse(text);
      this.rtnl.address.add({ ifindex: index, address });
    }
    return index;
  }

  /** Runs a command line of iproute2. */
  ip(line: string): void {
    runIn(this.hosts.host, "ip", ...line.split(" "));
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
