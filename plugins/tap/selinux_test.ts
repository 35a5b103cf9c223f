import { assertThrows } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { whenSuperseded } from "../../tests/_harness/superseded.ts";
import { createTapAs } from "./selinux.ts";

rootTest("createTapAs() creates no device in a superseded call", () => {
  using hosts = TestHosts.create();
  const tap = { name: "tap0", isMultiQueue: false };
  const create = (): void => createTapAs("any", hosts.sandbox, tap);
  assertThrows(() => whenSuperseded(create), Error, "superseded");
});
