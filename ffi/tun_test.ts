import { AsyncLocalStorage } from "node:async_hooks";
import { assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { linkNames, runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { needsOwnLink } from "../tests/_harness/own_link_cases.ts";
import { enableChangeChecks, withChangeCheck } from "./change_check.ts";
import { SyscallError } from "./errno.ts";
import { createTap } from "./tun.ts";

const NAME = "tap0123456789ab"; // as long as a name can be

rootTest(
  "createTap() creates a device that stays, once",
  needsOwnLink("tap"),
  () => {
    using hosts = TestHosts.create();
    const { host, sandbox } = hosts;
    const create = (name: string): void =>
      createTap(sandbox, { name, isMultiQueue: false });
    create(NAME);
    assertEquals(linkNames(sandbox), ["lo", NAME]);
    assertEquals(linkNames(host), ["lo"]);
    const errnoOf = (name: string): string =>
      assertThrows(() => create(name), SyscallError).errno;
    assertEquals(errnoOf(NAME), "EBUSY");
    runIn(sandbox, "ip", "link", "add", "eth0", "type", "ifb");
    assertEquals(errnoOf("eth0"), "EBUSY");
  },
);

rootTest(
  "createTap() creates nothing if its call may change nothing",
  needsOwnLink("tap"),
  () => {
    enableChangeChecks(new AsyncLocalStorage());
    using hosts = TestHosts.create();
    const { sandbox } = hosts;
    const check = (): never => {
      throw new Error("superseded");
    };
    const create = (): void =>
      withChangeCheck(
        check,
        () => createTap(sandbox, { name: NAME, isMultiQueue: false }),
      );
    assertThrows(create, Error, "superseded");
    assertEquals(linkNames(sandbox), ["lo"]);
  },
);
