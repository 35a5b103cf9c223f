#!/bin/sh
# Shows the commands of the tool `cni` with two containers on a network, in namespaces
# that end with this script: `deno task demo`. Fails if a command does.
set -e
cd "$(dirname "$0")/.."
if [ "$1" != inside ]; then
  user=
  [ "$(id -u)" = 0 ] || user=--map-root-user
  if ! unshare $user --net --mount true; then
    echo "The demo creates network namespaces: run it as root, in a privileged" \
      "container, or where user namespaces are allowed." >&2
    exit 1
  fi
  exec unshare $user --net --mount --propagation private sh "$0" inside
fi

# The state of the network and the names of namespaces are kept there.
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
export PATH="$PATH:$PWD/dist/bin" CNI_PATH="$PWD/dist/bin"
export NETCONFPATH="$PWD/docs/examples"
run() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

for container in a b; do
  run cni netns add $container
  run cni add pods $container
done
run cni show
run cni list
run cni probe a b
run cni check pods a
run cni doctor --try
for container in a b; do
  run cni del pods $container
  run cni netns del $container
done
run cni list
