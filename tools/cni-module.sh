#!/bin/bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# cni-module.sh VERSION DIRECTORY writes the Go module that builds a release of the CNI
# plugins.
set -euo pipefail
version=$1
mkdir -p "$2"
cd "$2"
rm -f go.mod go.sum
cat >go.mod <<END
// The CNI plugins $version, for the tests. tools/cni-module.sh wrote this module.
module github.com/allocnet/allocnet/tools/cni-$version

go 1.26.0
END
go get "github.com/containernetworking/plugins/plugins/...@v$version"
