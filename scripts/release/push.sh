#!/bin/sh
# Pushes the images and the chart of a release, and prints what a signature is for,
# as REGISTRY/NAME@sha256:...
#
#   scripts/release/push.sh dist/release ghcr.io/owner >digests
#
# It needs skopeo and helm, which are logged in. A registry on this machine
# (127.0.0.1:5000) is asked without TLS.
set -eu
cd "$1"
registry=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chart=$(echo cni-plugins-*.tgz)
version=${chart#cni-plugins-}
version=${version%.tgz}
case $registry in
  127.0.0.1*) tls=--dest-tls-verify=false http=--plain-http ;;
  *) tls= http= ;;
esac

for name in cni-plugins multus; do
  for form in "" -any; do
    tag=$name:$version$form
    skopeo copy --all --quiet --preserve-digests $tls --digestfile "$work/digest" \
      "oci-archive:cni-plugins-$version-images.tar:$tag" "docker://$registry/$tag"
    echo "$registry/$name@$(cat "$work/digest")"
  done
done
helm push $http "$chart" "oci://$registry/charts" >"$work/push" 2>&1
cat "$work/push" >&2
echo "$registry/charts/cni-plugins@$(sed -n 's/^Digest: //p' "$work/push")"
