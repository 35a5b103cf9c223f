#!/bin/sh
# The first process of the kernel that `deno task test:kernel` boots.
#
# The machine's file system is its root, read-only. An overlay in memory is put
# before it, so the tests can write anywhere and nothing stays. The kernel gives
# the words NAME=VALUE of its command line as variables:
#
#   CNI_KERNEL_DENO     deno
#   CNI_KERNEL_ROOT     the project
#   CNI_KERNEL_RUN      the file that says what to run: scripts/kernel/inside.ts
#   CNI_KERNEL_MODULES  the directory of the modules of all versions
#   CNI_KERNEL_SHARE    a directory of the machine to write to, if not empty
#
# This script runs twice: in the machine's file system, and in the overlay.
set -eu

# The second console is for the tests; the first is for the kernel.
exec </dev/null >/dev/tty1 2>&1

modules=$CNI_KERNEL_MODULES/$(uname -r)

if [ "${1-}" = "" ]; then
  stty -opost </dev/tty1
  mount -t proc proc /proc
  mount -t sysfs sys /sys
  mount -t tmpfs -o size=90% memory /mnt
  mkdir -p /mnt/upper /mnt/work /mnt/root /mnt/modules/lib/modules
  ln -s "$modules" /mnt/modules/lib/modules/
  modprobe -d /mnt/modules overlay
  mount -n -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work \
    overlay /mnt/root
  for directory in proc sys dev; do
    mount -n --move "/$directory" "/mnt/root/$directory"
  done
  cd /mnt/root
  pivot_root . mnt
  exec chroot . "$0" overlay
fi

# What the machine has running is not running here.
for directory in /run /var/lib/cni /etc/cni; do
  mkdir -p "$directory"
  mount -t tmpfs memory "$directory"
done
# The runner writes there how the rows ended.
mount -n -t hostfs -o "${CNI_KERNEL_RUN%/*}" none "${CNI_KERNEL_RUN%/*}"
if [ "${CNI_KERNEL_SHARE-}" != "" ]; then
  mount -n -t hostfs -o "$CNI_KERNEL_SHARE" none "$CNI_KERNEL_SHARE"
fi
mkdir -p /dev/shm /dev/pts /dev/net
mount -t tmpfs memory /dev/shm
mount -t devpts devpts /dev/pts
ln -sfn /proc/self/fd /dev/fd
ln -sfn fd/0 /dev/stdin
ln -sfn fd/1 /dev/stdout
ln -sfn fd/2 /dev/stderr
# From here on the kernel loads the modules that it needs by itself. It does not
# know that somebody needs these; newer ones have the first one built in.
mkdir -p /lib/modules
ln -sfn "$modules" "/lib/modules/$(uname -r)"
[ -d /proc/sys/net/ipv6 ] || modprobe ipv6
modprobe tun
ip link set lo up
# A host without nftables for IPv4 has the other iptables.
if ! nft add table ip probe 2>/dev/null; then
  for name in iptables ip6tables; do
    for end in "" -save -restore; do
      [ -x "/usr/sbin/$name-legacy$end" ] || continue
      ln -sfn "/usr/sbin/$name-legacy$end" "/usr/sbin/$name$end"
    done
  done
fi

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd "$CNI_KERNEL_ROOT"
"$CNI_KERNEL_DENO" run -A --no-config scripts/kernel/inside.ts \
  "$CNI_KERNEL_RUN" || echo "The runner ended with exit code $?"
halt -f >/dev/null 2>&1
