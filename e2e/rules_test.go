// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/lab"
)

var masquerade = regexp.MustCompile(`CNI-[0-9a-f]{24}`)

// removeMasquerade removes what the bridge and ptp plugins leave, with success,
// when the namespace is gone: forced cleanup is the Cleaner's work. It fails
// the test when there is nothing, because then this function is not needed.
func removeMasquerade(t *testing.T) {
	t.Helper()
	var rules, chains []string
	for _, line := range strings.Split(lab.Run(t, "iptables-save", "-t", "nat"), "\n") {
		chain := masquerade.FindString(line)
		switch {
		case chain == "":
		case strings.HasPrefix(line, ":"):
			chains = append(chains, "-F "+chain, "-X "+chain)
		case strings.HasPrefix(line, "-A POSTROUTING"):
			rules = append(rules, strings.Replace(line, "-A", "-D", 1))
		}
	}
	if len(chains) == 0 {
		t.Error("the plugins left no masquerade rules: no need to remove any")
	}
	restore := exec.Command("iptables-restore", "--noflush")
	restore.Stdin = strings.NewReader("*nat\n" + strings.Join(append(rules, chains...), "\n") + "\nCOMMIT\n")
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("iptables-restore: %v\n%s", err, out)
	}
}
