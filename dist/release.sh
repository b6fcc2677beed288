#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Builds a release: for amd64 and arm64, or for those in ARCHITECTURES, the static
# programs, their list for "allocnet version --verify", the Debian and the RPM package and the SPDX bill of materials, and the
# checksums of all. One architecture has to be this machine's. The same commit and the same Go give the same bytes.
# The version is that of internal/version; another in VERSION, as of a tag, is an error.
# With SIGNING_KEY it is signed, and a repository (dist/gpg.sh, dist/repository.sh).
# Usage: dist/release.sh SBOM-PROGRAM NFPM-PROGRAM OUTPUT-DIR
set -euo pipefail
umask 022
sbom=$(realpath "$1")
nfpm=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
cd "$(dirname "$0")/.."

version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' internal/version/version.go)
if [ -z "$version" ] || [ "${VERSION:-$version}" != "$version" ]; then
	echo "VERSION is \"${VERSION:-}\", and internal/version/version.go has \"$version\"" >&2
	exit 1
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
commit=$(git rev-parse HEAD)
architectures=${ARCHITECTURES:-amd64 arm64}
export VERSION=$version SOURCE_DATE_EPOCH
# A key that cannot be used is an error before anything is built, as is a passphrase alone.
if [ -n "${SIGNING_KEY:-}${SIGNING_PASSPHRASE:-}" ]; then
	dist/gpg.sh --sign </dev/null >/dev/null
fi
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT

for architecture in $architectures; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$architecture go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/allocnet/allocnet/internal/version.commit=$commit" -o "$programs/$architecture/" ./cmd/...
done
for architecture in $architectures; do
	bin=$programs/$architecture
	cp LICENSE "$bin/"
	tar -C "$bin" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c . | gzip -9n >"$out/allocnet_${version}_linux_$architecture.tar.gz"
	CGO_ENABLED=0 GOOS=linux GOARCH=$architecture "$sbom" allocnet "$version" "$bin" allocnet allocnet-cni allocnet-cni-engine allocnet-ipam >"$out/allocnet_${version}_linux_$architecture.spdx.json"
	ARCHITECTURE=$architecture NATIVE=$programs/$(go env GOHOSTARCH)/allocnet dist/package.sh "$nfpm" "$bin" "$out"
done
(cd "$out" && sha256sum -- *.tar.gz *.deb *.rpm *.sha256 *.spdx.json >SHA256SUMS)
if [ -n "${SIGNING_KEY:-}" ]; then
	dist/repository.sh "$out"
fi
