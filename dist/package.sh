#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Builds a Debian package of what `make build` built.
# Usage: dist/package.sh BIN-DIR OUTPUT-DIR
# For another architecture, ARCHITECTURE names it as Debian does, and NATIVE is an
# allocnet that this machine can run.
set -euo pipefail
bin=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")"

native=${NATIVE:-$bin/allocnet}
version=${VERSION:-$("$native" version --json | sed -n 's/.*"version": "\(.*\)".*/\1/p')}
architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
umask 022

doc=$tree/usr/share/doc/allocnet
install -D -m 755 "$bin/allocnet" "$tree/usr/bin/allocnet"
install -D -m 755 "$bin/allocnet-cni" "$tree/opt/cni/bin/allocnet-cni"
install -d "$tree/opt/cni/config" "$tree/etc/allocnet.d/units" "$tree/lib/systemd/system"
install -m 644 systemd/* "$tree/lib/systemd/system"
install -D -m 600 agent.hcl "$tree/etc/allocnet.d/agent.hcl"
install -D -m 644 -t "$doc/examples" conf/*
install -m 644 -t "$doc" ../README.md ../ARCHITECTURE.md ../CHANGELOG.md
install -D -m 644 -t "$doc/docs" ../docs/*.md
install -m 644 ../LICENSE "$doc/copyright"
"$native" man "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*
for shell in bash:bash-completion/completions/allocnet zsh:zsh/vendor-completions/_allocnet fish:fish/vendor_completions.d/allocnet.fish; do
	file=$tree/usr/share/${shell#*:}
	install -d "$(dirname "$file")"
	"$native" completion "${shell%%:*}" >"$file"
done

install -d "$tree/DEBIAN"
install -m 755 debian/* "$tree/DEBIAN"
echo /etc/allocnet.d/agent.hcl >"$tree/DEBIAN/conffiles"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: allocnet
Version: $version
Architecture: $architecture
Maintainer: the allocnet authors <allocnet@example.org>
Section: net
Priority: optional
Depends: iptables, procps
Recommends: containernetworking-plugins
Installed-Size: $(du -sk "$tree" | cut -f1)
Description: attaches allocations to several CNI networks
 Several CNI networks for one network namespace, crash-safe: for Nomad, for
 schedulers of one's own, and for services under systemd.
CONTROL
dpkg-deb --build --root-owner-group "$tree" "$out/allocnet_${version}_$architecture.deb"
