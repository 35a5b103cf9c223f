#!/bin/sh
# Makes user, mount and network namespaces as RootlessKit does: all at once, before
# IDs are mapped. Prints an empty line once they are there, and lives as long as its
# stdin.
# usage: rootless.sh WORK UID PATH...
#   WORK  an empty directory
#   UID   the user who makes them
#   PATH  files and directories that the user needs, wherever they are
set -e
work=$1 uid=$2
shift 2
as_user() { setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"; }

# In mounts of their own: a directory that others may not pass has nothing else
# than these.
mount -t tmpfs tmpfs "$work"
place() {
  if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")" && touch "$2"; fi
  mount --bind "$1" "$2"
}
for path in "$@"; do place "$path" "$work$path"; done
for path in "$@"; do
  closed=$path
  while [ -e "$path" ] && ! as_user test -x "$(dirname "$closed")"; do
    closed=$(dirname "$closed")
  done
  [ "$closed" = "$path" ] || mount -t tmpfs -o mode=755 tmpfs "$closed"
  [ -e "$path" ] || place "$work$path" "$path"
done
umount -l "$work"

exec setpriv --reuid="$uid" --regid="$uid" --clear-groups \
  unshare --user --mount --net sh -c 'echo; exec cat'
