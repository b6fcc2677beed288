// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-cni is the CNI plugin: it has the agent carry out a call, or becomes
// allocnet-cni-engine.
package main

import (
	"os"

	"github.com/allocnet/allocnet/cniplugin/shim"
)

func main() {
	os.Exit(shim.Program{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Become: shim.Become}.Run())
}
