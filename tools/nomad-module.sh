#!/bin/bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# nomad-module.sh VERSION DIRECTORY [API] writes the Go module that builds a release
# of Nomad. Go ignores the replace directives of a dependency, so they are repeated. The
# directory ./api, which a release replaces its API module with, becomes the version of
# that module from the same commit, or API if the proxy does not have it.
set -euo pipefail
version=$1 directory=$2

download=$(go mod download -json "github.com/hashicorp/nomad@v$version")
field() { sed -n "s/^[[:space:]]*\"$1\": \"\(.*\)\",\{0,1\}$/\1/p" <<<"$download"; }
commit=$(field Hash)
time=$(sed -n 's/.*"Time":"\([^"]*\)Z".*/\1/p' "$(field Info)" | tr -d ':T-')
api=${3:-v0.0.0-$time-${commit:0:12}}

rm -f "$directory"/go.mod "$directory"/go.sum
mkdir -p "$directory"
cd "$directory"
cat >go.mod <<END
// Nomad $version, for the tests. tools/nomad-module.sh wrote this module.
module github.com/allocnet/allocnet/tools/nomad-$version

go 1.26.0

tool github.com/hashicorp/nomad

END
sed -n '/=>/{/ \.\/api$/d;s/^replace//;s/^[[:space:]]*/replace /;p}' "$(field GoMod)" >>go.mod
go get "github.com/hashicorp/nomad@v$version" "github.com/hashicorp/nomad/api@$api"
