/** What the specification demands of executables. */

import { demandsOnExecutable } from "../_harness/demands.ts";

demandsOnExecutable({ type: "ptp", makes: ["firewall"] });
demandsOnExecutable({ type: "host-local" });
