#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Makes a directory with packages and SHA256SUMS a repository of apt and of yum, which any web server can serve, and signs
# it with the key that dist/gpg.sh takes from the environment. Packages of earlier releases may be there, too. Nothing in
# it changes before everything is signed.
# Usage: SIGNING_KEY=/FILE dist/repository.sh DIRECTORY
set -euo pipefail
umask 022
gpg=$(realpath "$(dirname "$0")/gpg.sh")
cd "$1"

new=$(mktemp -d .new.XXXXXX)
trap 'rm -rf "$new"' EXIT
apt-ftparchive packages . >"$new/Packages"
gzip -9nk "$new/Packages"
origin=APT::FTPArchive::Release
release=$(cd "$new" && apt-ftparchive -o $origin::Origin=allocnet -o $origin::Label=allocnet -o $origin::Suite=stable release .)
"$gpg" --clearsign --output "$new/InRelease" <<<"$release"
createrepo_c --quiet --outputdir "$new" .
"$gpg" --armor --detach-sign --output "$new/repodata/repomd.xml.asc" "$new/repodata/repomd.xml"
"$gpg" --armor --detach-sign --output "$new/SHA256SUMS.asc" SHA256SUMS
"$gpg" --armor --export --output "$new/allocnet.asc"
rm -rf repodata
mv -f "$new"/* .
