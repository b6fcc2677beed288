#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Makes a directory with packages and SHA256SUMS a repository of apt and of yum, which any web server can serve, and signs
# it with the key that dist/gpg.sh takes from the environment. Packages of earlier releases may be there, too.
# Usage: SIGNING_KEY=/FILE dist/repository.sh DIRECTORY
set -euo pipefail
umask 022
gpg=$(realpath "$(dirname "$0")/gpg.sh")
cd "$1"

release=$(mktemp)
trap 'rm -f "$release"' EXIT
rm -rf Packages Packages.gz InRelease repodata
apt-ftparchive packages . >Packages
gzip -9nk Packages
origin=APT::FTPArchive::Release
apt-ftparchive -o $origin::Origin=allocnet -o $origin::Label=allocnet -o $origin::Suite=stable release . >"$release"
"$gpg" --clearsign --output InRelease "$release"
createrepo_c --quiet .
"$gpg" --armor --detach-sign --output repodata/repomd.xml.asc repodata/repomd.xml
"$gpg" --armor --detach-sign --output SHA256SUMS.asc SHA256SUMS
"$gpg" --armor --export --output allocnet.asc
