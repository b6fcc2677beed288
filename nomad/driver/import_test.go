// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestOnlyProtocolIsLinked: of Nomad's module only the packages of the wire
// protocol, which are MPL-2.0 in every version, are in the program.
func TestOnlyProtocolIsLinked(t *testing.T) {
	const module = "github.com/hashicorp/nomad/"
	out, err := exec.Command("go", "list", "-deps", "../../cmd/allocnet").Output()
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for path := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(path), module); ok {
			linked = append(linked, rest)
		}
	}
	slices.Sort(linked)
	want := []string{"api", "api/contexts", "plugins/base/proto", "plugins/drivers/proto", "plugins/shared/hclspec", "plugins/shared/structs/proto"}
	if !slices.Equal(linked, want) {
		t.Errorf("linked are %v, want %v", linked, want)
	}
}
