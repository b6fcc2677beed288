// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"fmt"
	"strings"
)

// configuration is what is run with each executor. Its fields are exported for encoding/gob.
type configuration struct {
	Name string
	// Prepare are commands that make the host what it is before the first step.
	Prepare []string
	// Networks are those of one allocation, the first with the interface eth0.
	Networks []network
	// Steps are verbs of CNI, for all networks, and commands.
	Steps []string
	// Sabotage is a command that is run after a step, unless plugins run all steps: a test of
	// the comparison.
	Sabotage      string
	SabotageAfter int
	// Legacy is whether iptables is that of the kernel's old backend.
	Legacy bool
	// Healthy is whether it is attached by the engine, and examined, instead of its steps.
	Healthy bool
}

// String returns all of it, to repeat it manually.
func (c configuration) String() string {
	var b strings.Builder
	for _, command := range c.Prepare {
		fmt.Fprintln(&b, "prepare:", command)
	}
	for _, n := range c.Networks {
		fmt.Fprintln(&b, "network:", n.List, n.Capabilities, n.Args)
	}
	fmt.Fprint(&b, "steps: ", strings.Join(c.Steps, "; "))
	return b.String()
}

// network is one network of an allocation, with what a runtime asks of it.
type network struct {
	// List is the conflist.
	List string
	// Capabilities are the capability arguments, in JSON.
	Capabilities string
	// Args are CNI_ARGS.
	Args [][2]string
	// IfName and ContainerID are those of the attachment, if not eth and the number of the network, and
	// the usual one.
	IfName, ContainerID string
}

// Steps that are verbs.
const (
	add    = "ADD"
	check  = "CHECK"
	del    = "DEL"
	status = "STATUS"
)

// inSandbox begins the commands that change the namespace of the allocation.
const inSandbox = "ip -n sandbox "

// removeMaster removes the link that macvlan is on, and with it that of the allocation.
const removeMaster = "ip link del uplink || true"

// vanish removes the namespace of the allocation.
const vanish = "namespace removed"

func isVerb(step string) bool { return step == add || step == check || step == del || step == status }
