#!/bin/sh
# Runs Deno of the npm registry after its digest was compared with the one in
# scripts/compile/digests.json. For jobs that build or publish a release: there, the
# registry's word for what it serves is not enough. Nothing of the package is run before.
#
# Usage: scripts/release/deno.sh task release
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/.*"deno": "\([0-9.]*\)".*/\1/p' "$root/package.json")
machine=$(uname -m)
case $machine in
x86_64) package=@deno/linux-x64-glibc ;;
aarch64) package=@deno/linux-arm64-glibc ;;
*) echo "Cannot get deno for $machine" >&2 && exit 1 ;;
esac
expected=$(sed -n \
  "s/.*\"$version $machine-unknown-linux-gnu\": \"\([0-9a-f]\{64\}\)\".*/\1/p" \
  "$root/scripts/compile/digests.json" | head -n 1)
# Ends also where no digest is kept.
[ -n "$expected" ] || { echo "No digest of deno $version is kept" >&2 && exit 1; }

directory=$root/build/deno-$version-$machine
mkdir -p "$directory"
if [ ! -e "$directory/package/deno" ]; then
  archive=$(npm pack --silent --pack-destination "$directory" "$package@$version")
  tar -xzf "$directory/$archive" -C "$directory" package/deno
fi
echo "$expected  $directory/package/deno" | sha256sum --check --quiet >&2 || {
  echo "Cannot run $package@$version: its digest is another" >&2
  exit 1
}
chmod +x "$directory/package/deno"
exec "$directory/package/deno" "$@"
