/**
 * Releases of the Go plugins.
 *
 * @module
 */

/**
 * The first release of the Go plugins with a plugin or key, if that is later
 * than 0.7.6.
 *
 * Source: the JSON tags in plugins/ of each release of
 * github.com/containernetworking/plugins.
 */
export const SINCE: Readonly<Record<string, string>> = {
  "bandwidth": "0.8.0",
  "bridge.disableContainerInterface": "1.4.1",
  "bridge.enabledad": "1.1.0",
  "bridge.ipMasqBackend": "1.6.0",
  "bridge.macspoofchk": "1.1.0",
  "bridge.portIsolation": "1.7.0",
  "bridge.preserveDefaultVlan": "1.3.0",
  "bridge.runtimeConfig.mac": "1.0.0",
  "bridge.vlan": "0.8.0",
  "bridge.vlanTrunk": "1.3.0",
  "bridge.vlanTrunk[].id": "1.3.0",
  "bridge.vlanTrunk[].maxID": "1.3.0",
  "bridge.vlanTrunk[].minID": "1.3.0",
  "dhcp.daemonSocketPath": "0.8.0",
  "dhcp.priority": "1.6.0",
  "dhcp.provide": "1.1.0",
  "dhcp.request": "1.1.0",
  "dummy": "1.2.0",
  "firewall": "0.8.0",
  "firewall.ingressPolicy": "1.1.0",
  "host-device.runtimeConfig.deviceID": "0.8.6",
  "host-device.pciBusID": "0.8.1",
  "ipvlan.linkInContainer": "1.3.0",
  "macvlan.bcqueuelen": "1.6.0",
  "macvlan.linkInContainer": "1.3.0",
  "macvlan.runtimeConfig.mac": "0.8.7",
  "portmap.backend": "1.6.0",
  "portmap.masqAll": "1.2.0",
  "ptp.ipMasqBackend": "1.6.0",
  "sbr": "0.8.0",
  "sbr.table": "1.6.0",
  "static": "0.8.0",
  "tap": "1.3.0",
  "tap.bridge": "1.4.0",
  "tuning.allmulti": "1.0.0",
  "tuning.dataDir": "0.9.0",
  "tuning.mac": "0.8.0",
  "tuning.mtu": "0.8.0",
  "tuning.promisc": "0.8.0",
  "tuning.txQLen": "1.4.0",
  "vlan.linkInContainer": "1.3.0",
  "vrf": "0.9.0",
};
