import { assertEquals } from "@std/assert";
import { conformance } from "../tests/_harness/conformance.ts";
import { makeContainerId } from "./container_id.ts";

const vectors = {
  "/var/run/netns/testing": "cnitool-77383ca0a0715733ca6f",
  "/var/run/netns/cnitest": "cnitool-20c433bb2b1d6ede56d6",
};

conformance(
  "cnitool",
  Object.fromEntries(
    Object.entries(vectors).map(([netns, id]) => [
      `the container ID of ${netns} is ${id}`,
      async (): Promise<void> => assertEquals(await makeContainerId(netns), id),
    ]),
  ),
);
