import { runMain } from "../../cni/skel.ts";
import { loopback } from "./plugin.ts";

runMain(loopback);
