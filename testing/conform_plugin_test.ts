import { neighbors } from "../docs/examples/neighbors/main.ts";
import { conformPlugin } from "./conform_plugin.ts";

conformPlugin(neighbors, (hosts) => [
  { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") },
  {
    type: "neighbors",
    neighbors: [{ ip: "10.1.2.200", mac: "02:00:5e:10:00:01" }],
  },
]);
