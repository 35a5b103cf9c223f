import { runMain } from "../../cni/skel.ts";
import { sbr } from "./plugin.ts";

runMain(sbr);
