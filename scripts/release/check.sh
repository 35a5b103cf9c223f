#!/bin/sh
# Checks the files of a release on the machine that it runs on:
#
#   scripts/release/check.sh dist/release
#
# - SHA256SUMS
# - the executables of both forms start, and are the same file
# - apt finds the package in the directory
# - the executable starts in each image, in which nothing else is (as root)
# - helm accepts the chart
#
# It needs apt, skopeo, and helm. Nothing is installed, and nothing is downloaded.
set -eu
cd "$1"
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
architecture=$(dpkg --print-architecture)
chart=$(echo cni-plugins-*.tgz)
version=${chart#cni-plugins-}
version=${version%.tgz}

sha256sum --check --strict --quiet SHA256SUMS
echo "SHA256SUMS: $(wc -l <SHA256SUMS) files"

for form in "" -any; do
  title=cni-plugins-$version-linux-$architecture$form
  tar -xf "$title.tar.gz" -C "$work"
  "$work/$title/bin/cni" --version
  CNI_COMMAND=VERSION "$work/$title/bin/bridge" </dev/null | grep -q 1.1.0
done
cmp "$work"/*-any/bin/cni "$work/cni-plugins-$version-linux-$architecture/bin/cni"

mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial"
echo "deb [trusted=yes] file:$here ./" >"$work/apt/sources.list"
touch "$work/apt/status"
apt() {
  "$@" -qq -o "Dir::Etc::SourceList=$work/apt/sources.list" \
    -o Dir::Etc::SourceParts=- -o "Dir::State=$work/apt" \
    -o "Dir::State::Status=$work/apt/status" -o "Dir::Cache=$work/apt"
}
# apt reads files as a user who may not enter all directories.
chmod 755 "$work"
apt apt-get update -o APT::Sandbox::User=root
apt apt-cache show cni-plugins | grep "^Version: $version\$"

for name in cni-plugins multus; do
  for form in "" -any; do
    image=$work/$name$form
    skopeo copy --quiet --override-arch "$architecture" \
      "oci-archive:cni-plugins-$version-images.tar:$name:$version$form" \
      "dir:$image"
    mkdir "$image/root"
    for layer in $(tr , '\n' <"$image/manifest.json" |
      sed -n '/layers/,$ s/.*"sha256:\([0-9a-f]*\)".*/\1/p'); do
      tar -xf "$image/$layer" -C "$image/root"
    done
    program=/opt/cni/bin/$(echo $name | sed 's/cni-plugins/cni/')
    [ "$(id -u)" = 0 ] || { echo "$name:$version$form: not root"; continue; }
    mkdir "$image/root/proc"
    # A pipe would hide that it failed.
    said=$(unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' \
      sh "$image/root" "$program" --version)
    echo "$name$form: $said"
  done
done

helm lint --strict --quiet "$chart"
echo "$chart: helm lint finds nothing"
