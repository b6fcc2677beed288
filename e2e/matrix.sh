#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# matrix.sh NOMAD_VERSIONS CNI_VERSIONS runs the tests with each version, and writes into
# docs/nomad.md what works with it. The results of versions that it does not run again
# remain in build/matrix. It fails if a test fails, after all versions.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/matrix
code=0

# tested TARGET PROGRAM VERSION...
tested() {
	local target=$1 program=$2 version json
	shift 2
	for version; do
		json=$PWD/build/matrix/$program-$version.json
		echo "$program $version"
		make -s "$target" VERSION="$version" JSON="$json.new" || code=1
		[ ! -s "$json.new" ] || mv "$json.new" "$json"
		grep -h '"Action":"fail"' "$json" | grep -o '"Test":"[^"]*"' | sort -u
	done
}
# shellcheck disable=SC2086 # lists
tested test-nomad nomad $1
# shellcheck disable=SC2086
tested test-cni cni $2
go run ./e2e/matrix docs/nomad.md build/matrix || code=1
exit $code
