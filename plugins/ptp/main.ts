import { runMain } from "../../cni/skel.ts";
import { ptp } from "./plugin.ts";

runMain(ptp);
