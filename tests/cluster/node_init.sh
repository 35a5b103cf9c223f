#!/bin/sh
# The first process of a node, in namespaces of its own: gives it directories of
# its own, and waits for orphans, for ever. What is in memory ends with it.
# usage: node_init.sh NAME DIRECTORY
set -e
name=$1
directory=$2

hostname "$name"
# Containers' mounts spread among the node's programs, as on a machine.
mount --make-rshared /
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/lock /run/netns
for path in etc opt var; do
  mount --bind "$directory/$path" "/$path"
done

# Settings of the machine's kernel are not a node's to change, though the kubelet
# insists on some; those of its network are.
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mkdir /run/settings
for key in kernel/panic kernel/panic_on_oops vm/overcommit_memory; do
  copy="/run/settings/${key##*/}"
  cat "/proc/sys/$key" > "$copy"
  mount --bind "$copy" "/proc/sys/$key"
done
mount -o remount,bind,ro /proc/sys

# Control groups: this process's own are the roots.
mount -t sysfs none /sys
if [ "$(wc -l < /proc/self/cgroup)" = 1 ]; then
  mount -t cgroup2 none /sys/fs/cgroup
else
  mount -t tmpfs none /sys/fs/cgroup
  while IFS=: read -r _ controllers _; do
    [ -n "$controllers" ] || continue
    path="/sys/fs/cgroup/${controllers#name=}"
    mkdir "$path"
    mount -t cgroup -o "$controllers" none "$path"
  done < /proc/self/cgroup
fi

touch /run/booted
while :; do
  sleep infinity &
  wait
done
