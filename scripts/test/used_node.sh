#!/bin/sh
# Makes these mount and network namespaces those of a node that other software
# uses, prints where temporary files go, or an empty line,
# and lives as long as its stdin.
# usage: used_node.sh WORK (an empty directory)
set -e
work=$1
# What the machine has mounted below /run, such as /run/netns, would still be
# listed as mounted there.
awk '$5 ~ "^/run/" { print $5 }' /proc/self/mountinfo | sort -r |
  while read -r path; do umount -l "$path" 2> /dev/null || true; done
# First of all, for mount writes to /run.
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs "$work"

# Over the machine's own directories. Files that a container runtime mounts in
# /etc are not in the lower directory.
for path in /etc /opt /var/lib; do
  [ -d "$path" ] || continue
  layer="$work/$(echo "$path" | tr / _)"
  mkdir -p "$layer/upper" "$layer/work"
  if [ "$path" = /etc ]; then
    cp -L /etc/hosts "$layer/upper" 2> /dev/null || true
    # Nobody answers there, and that at once.
    echo 'nameserver 127.0.0.1' > "$layer/upper/resolv.conf"
  fi
  mount -t overlay overlay \
    -o "lowerdir=$path,upperdir=$layer/upper,workdir=$layer/work" "$path"
done
# Not removed: in a user namespace, root's own cannot be read.
for path in /etc/cni /opt/cni /var/lib/cni; do
  mkdir -p "$path"
  mount -t tmpfs -o mode=755 tmpfs "$path"
done
# Tests create and remove files all the time, which a disk makes slow: theirs are
# in memory where there is enough of it, in a directory that nobody uses.
memory=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
temporary=
if [ "${memory:-0}" -ge 4096 ] && [ -d /srv ] && [ -z "$(ls -A /srv)" ]; then
  mount -t tmpfs -o mode=1777 tmpfs /srv && temporary=/srv
fi
mkdir -p /etc/cni/net.d /opt/cni/bin /run/cni/chain /run/cni/locks /run/lock /run/multus /run/netns

# Networks of podman, and of a file that nobody can read.
cat > /etc/cni/net.d/87-podman-bridge.conflist << 'END'
{
  "cniVersion": "0.4.0",
  "name": "podman",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni-podman0",
      "isGateway": true,
      "ipMasq": true,
      "ipam": {
        "type": "host-local",
        "routes": [{ "dst": "0.0.0.0/0" }],
        "ranges": [[{ "subnet": "10.88.0.0/16", "gateway": "10.88.0.1" }]]
      }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
END
echo '{' > /etc/cni/net.d/00-broken.conflist
echo '{"logFile":"/run/foreign.log"}' > /etc/cni/log.json
# Any iptables-legacy leaves its lock.
touch /run/xtables.lock
# A build of another machine.
printf '#!/bin/sh\nexit 1\n' > /opt/cni/bin/bridge
chmod 755 /opt/cni/bin/bridge
for plugin in bandwidth chain dhcp dummy firewall flannel host-device host-local \
  ipvlan loopback macvlan multus portmap ptp sbr static tap tuning vlan vrf \
  whereabouts; do
  ln /opt/cni/bin/bridge "/opt/cni/bin/$plugin"
done

# Addresses of another container in networks of the names that tests use, and
# a cached attachment of it.
for lease in net1/10.1.2.2 pods/10.22.0.2 podman/10.88.0.2; do
  mkdir -p "/var/lib/cni/networks/${lease%/*}"
  printf 'foreign\r\neth0' > "/var/lib/cni/networks/$lease"
done
mkdir -p /var/lib/cni/results /var/lib/cni/multus/results
echo '{' > /var/lib/cni/results/net1-foreign-eth0
echo '{' > /var/lib/cni/multus/foreign

# Links, routes and rules of docker and podman.
ip link set lo up
ip link add uplink0 type veth peer name eth0
ip link set uplink0 up
ip link set eth0 up
ip address add 192.0.2.2/24 dev eth0
ip route add default via 192.0.2.1
for link in docker0=172.17.0.1/16 cni-podman0=10.88.0.1/16 br0=10.1.2.1/24; do
  ip link add "${link%=*}" type bridge || continue
  ip address add "${link#*=}" dev "${link%=*}"
  ip link set "${link%=*}" up
done
iptables -P FORWARD DROP 2> /dev/null || true

echo "$temporary"
# A node has a container runtime. In a container, where kernel threads are hidden, this
# name tells that all processes of the node are visible.
ln -s "$(command -v cat)" "$work/conmon"
exec "$work/conmon"
