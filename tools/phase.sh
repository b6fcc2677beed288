#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# phase.sh NAME COMMAND... runs a command, and prints how long it took.
set -uo pipefail
name=$1
shift
printf '== %s\n' "$name"
began=$(date +%s)
"$@"
code=$?
printf '== %s: %d s, %s\n' "$name" $(($(date +%s) - began)) "$([ $code = 0 ] && echo passed || echo "failed with exit code $code")"
exit $code
