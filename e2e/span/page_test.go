// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestReplicationPage: on the network of docs/replication.md, its service has an address of each host, which the others reach.
func TestReplicationPage(t *testing.T) {
	page, err := os.ReadFile(sandbox.Root() + "/docs/replication.md")
	must(t, err)
	text := regexp.MustCompile("(?m)^   ").ReplaceAllString(string(page), "")
	_, network, found := strings.Cut(text, "<!-- tested: network -->\n```sh\n")
	network, _, _ = strings.Cut(network, "```")
	_, job, ends := strings.Cut(text, "<!-- tested: job -->\n```hcl\n")
	job, _, _ = strings.Cut(job, "```")
	if !found || !ends {
		t.Fatal("docs/replication.md has no network, or no job")
	}
	s := take(t)
	for _, m := range lab.Clients {
		_, err := m.Run("bash", "-euxo", "pipefail", "-c", network)
		must(t, errors.Join(err, m.Signal(cluster.Agent, unix.SIGHUP)))
	}
	must(t, lab.Jobs.SubmitText("replicas", strings.Replace(job, "cni/multi", "cni/span", 1)))
	members := s.awaitExample("replicas")
	s.requireService(members[0], "replica", netip.MustParsePrefix("10.112.0.0/16"))
	must(t, lab.Jobs.Stop("replicas"))
}
