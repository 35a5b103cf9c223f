import { runMain } from "../../cni/skel.ts";
import { bandwidth } from "./plugin.ts";

runMain(bandwidth);
