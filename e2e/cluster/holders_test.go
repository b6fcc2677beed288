// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// holders knows which machines have an address on an interface. The kernel tells one socket of the changes of all of them, in their
// order: an address that a second machine has for an instant is noticed.
type holders struct {
	testing.TB
	mu sync.Mutex
	// has are the namespaces of machines that have the address.
	has   []string
	trail []turn
}

// turn is that a machine gets the address, or loses it.
type turn struct {
	namespace string
	has       bool
	at        time.Time
}

// follow watches an address until the test ends.
func follow(t testing.TB, address string) *holders {
	t.Helper()
	h := &holders{TB: t}
	monitor := exec.Command("ip", "-ts", "-o", "monitor", "all-nsid", "address")
	out, err := monitor.StdoutPipe()
	must(t, err)
	must(t, monitor.Start())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		lines.Scan()
		close(ready)
		of := regexp.MustCompile(`^\[(\S+)\] \[nsid (\d+)\](Deleted )?.* inet ` + regexp.QuoteMeta(address) + `/32 `)
		for lines.Scan() {
			if m := of.FindStringSubmatch(lines.Text()); m != nil {
				at, _ := time.ParseInLocation("2006-01-02T15:04:05.000000", m[1], time.Local) // it is only shown
				h.note(turn{m[2], m[3] == "", at})
			}
		}
	}()
	t.Cleanup(func() {
		_ = monitor.Process.Kill()
		<-ended
		_ = monitor.Wait() // killed
	})
	sandbox.Eventually(t, "the changes of addresses are told", func() bool {
		sandbox.Run(t, "sh", "-ec", "ip address add 192.0.2.1/32 dev lo; ip address delete 192.0.2.1/32 dev lo")
		select {
		case <-ready:
			return true
		default:
			return false
		}
	})
	return h
}

func (h *holders) note(n turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trail = append(h.trail, n)
	h.has = slices.DeleteFunc(h.has, func(namespace string) bool { return namespace == n.namespace })
	if n.has {
		h.has = append(h.has, n.namespace)
	}
	if len(h.has) > 1 {
		h.Errorf("machines in the namespaces %v have the address at the same time: %+v", h.has, h.trail)
	}
}

// off notes that a machine has no power any more: the kernel does not tell of the addresses of a namespace that has ended. It is called
// before that.
func (h *holders) off(m *cluster.Machine) {
	namespace := namespaceOf(h, m)
	m.Off()
	h.note(turn{namespace: namespace, at: time.Now()})
}

// now returns the name of the machine that has the address, or an empty one.
func (h *holders) now() string {
	h.mu.Lock()
	has := slices.Clone(h.has)
	h.mu.Unlock()
	for _, m := range lab.Clients {
		if m.IsOn() && len(has) > 0 && namespaceOf(h, m) == has[0] {
			return m.Name
		}
	}
	return ""
}

// last returns when a machine got the address last, or lost it.
func (h *holders) last(m *cluster.Machine, has bool) time.Time {
	namespace := namespaceOf(h, m)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range slices.Backward(h.trail) {
		if n.namespace == namespace && n.has == has {
			return n.at
		}
	}
	return time.Time{}
}

// namespaceOf is the number by which the sandbox knows the namespace of a machine.
func namespaceOf(t testing.TB, m *cluster.Machine) string {
	var links []struct {
		Namespace *int `json:"link_netnsid"`
	}
	out := sandbox.Run(t, "ip", "-json", "link", "show", "dev", m.Name+"-mgmt")
	if err := json.Unmarshal([]byte(out), &links); err != nil || len(links) != 1 || links[0].Namespace == nil {
		t.Fatalf("the link of %s: %v: %s", m.Name, err, out)
	}
	return fmt.Sprint(*links[0].Namespace)
}
