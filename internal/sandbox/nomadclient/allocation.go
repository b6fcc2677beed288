// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"crypto/rand"
	"fmt"

	gocni "github.com/containerd/go-cni"
)

// Allocation is an instance of a group on a client.
type Allocation struct {
	ID    string
	Index int
	Group Group
	// Ports are those of the group, with the ports of the host.
	Ports []Port
	// Status is what Nomad keeps of the result of ADD. Nil: the network was never set up.
	Status *NetworkStatus
	// TaskStatus is what a task that starts now is told, in its environment and resolv.conf.
	// Up to 1.10 it is nil when the client has restarted.
	TaskStatus *NetworkStatus
	// Leaked is the error of the last DEL, or of the forced cleanup, which the client logs and
	// otherwise ignores.
	Leaked error

	path string
	net  *configurator
}

func newAllocation(g Group, index int) *Allocation {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return &Allocation{
		ID:    fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
		Index: index, Group: g,
	}
}

// TaskDNS is the resolver configuration of a task that starts now: that of the network, which the
// dns block of the group replaces (v2.0.5 task_runner.go:1179-1202). Nil: that of the host.
func (a *Allocation) TaskDNS() *DNS {
	switch block := a.Group.Networks[0].DNS; {
	case block != nil:
		return block
	case a.TaskStatus != nil:
		return a.TaskStatus.DNS
	}
	return nil
}

// portMappings returns each port twice, for TCP and for UDP (v1.6.2 networking_cni.go, getPortMapping):
// of the first block alone.
func (a *Allocation) portMappings() []gocni.PortMapping {
	var mappings []gocni.PortMapping
	for _, port := range a.Ports {
		for _, protocol := range []string{"tcp", "udp"} {
			mappings = append(mappings, gocni.PortMapping{HostPort: int32(port.Static), ContainerPort: int32(port.To), Protocol: protocol})
		}
	}
	return mappings
}
