#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Builds a Debian package and an RPM package of what `make build` built.
# Usage: dist/package.sh NFPM-PROGRAM BIN-DIR OUTPUT-DIR
# For another architecture, ARCHITECTURE names it as Go does, and NATIVE is an allocnet
# that this machine can run. SOURCE_DATE_EPOCH is the time of all files.
# PACKAGE_COMPRESSION is that of both packages, in place of gzip at its highest level: gzip:1 takes a tenth of the time.
# With SIGNING_KEY (dist/gpg.sh) the RPM package is signed, and both have what "allocnet version --verify" needs.
set -euo pipefail
umask 022
nfpm=$(realpath "$1")
BIN=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
cd "$(dirname "$0")/.."

native=${NATIVE:-$BIN/allocnet}
VERSION=${VERSION:-$("$native" version --json | sed -n 's/.*"version": "\(.*\)".*/\1/p')}
ARCHITECTURE=${ARCHITECTURE:-$(go env GOHOSTARCH)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}
TREE=$(mktemp -d)
trap 'rm -rf "$TREE"' EXIT
PACKAGE_COMPRESSION=${PACKAGE_COMPRESSION:-gzip}
SIGNING_KEY=${SIGNING_KEY:-}
NFPM_RPM_PASSPHRASE=${SIGNING_PASSPHRASE:+$(cat "$SIGNING_PASSPHRASE")}
export ARCHITECTURE NFPM_RPM_PASSPHRASE SIGNING_KEY SOURCE_DATE_EPOCH VERSION

share=$TREE/usr/share
examples=$share/doc/allocnet/examples
mkdir -p "$share/bash-completion/completions" "$share/fish/vendor_completions.d" "$examples"
"$native" man "$share/man"
gzip -9n "$share"/man/man*/*
"$native" completion bash >"$share/bash-completion/completions/allocnet"
"$native" completion fish >"$share/fish/vendor_completions.d/allocnet.fish"
"$native" completion zsh >"$TREE/zsh"
cp dist/conf/* "$examples"
for directory in dist/*/; do
	case $directory in
	*/conf/ | */debian/ | */networkd/ | */rpm/ | */systemd/ | */udev/) ;;
	*) cp -R "$directory" "$examples" ;;
	esac
done
cat dist/debian/copyright >"$TREE/copyright"
sed 's/^$/./; s/^/ /' LICENSE >>"$TREE/copyright"
awk -v version="$VERSION" -v date="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
	-v packager="the allocnet authors <allocnet@users.noreply.github.com>" -f dist/changelog.awk CHANGELOG.md >"$TREE/changelog.yaml"
list=$out/allocnet_${VERSION}_linux_$ARCHITECTURE.sha256
for path in /usr/bin/allocnet /opt/cni/bin/allocnet-cni /opt/cni/bin/allocnet-cni-engine /opt/cni/bin/allocnet-ipam; do
	(cd "$BIN" && sha256sum "${path##*/}") | sed "s|  .*|  $path|"
done >"$list"
if [ -n "$SIGNING_KEY" ]; then
	mkdir "$share/allocnet" "$share/keyrings"
	dist/gpg.sh --armor --detach-sign --output "$list.asc" "$list"
	cp "$list" "$share/allocnet/programs.sha256"
	cp "$list.asc" "$share/allocnet/programs.sha256.asc"
	dist/gpg.sh --export --output "$share/keyrings/allocnet.gpg"
fi
chmod -R u=rwX,go=rX "$TREE/usr"
sed "s|\${BIN}|$BIN|; s|\${TREE}|$TREE|; s|\${PACKAGE_COMPRESSION}|$PACKAGE_COMPRESSION|" dist/nfpm.yaml >"$TREE/nfpm.yaml"
for packager in deb rpm; do
	"$nfpm" package --config "$TREE/nfpm.yaml" --packager "$packager" --target "$out/"
done
