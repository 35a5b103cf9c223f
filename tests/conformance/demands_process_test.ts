/** Demands of the specification on executables. */

import { demandsOnExecutable } from "../_harness/demands.ts";

demandsOnExecutable({ type: "ptp", makes: ["firewall"] });
demandsOnExecutable({ type: "host-local", withoutProtocol: true });
