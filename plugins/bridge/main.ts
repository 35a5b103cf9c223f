import { runMain } from "../../cni/skel.ts";
import { bridge } from "./plugin.ts";

runMain(bridge);
