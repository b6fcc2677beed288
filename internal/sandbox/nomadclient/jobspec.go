// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// The parts of a job specification that a client's networks depend on.
type (
	jobFile struct {
		Job struct {
			ID        string     `hcl:"id,label"`
			Region    string     `hcl:"region,optional"`
			Namespace string     `hcl:"namespace,optional"`
			Groups    []jobGroup `hcl:"group,block"`
			Rest      hcl.Body   `hcl:",remain"`
		} `hcl:"job,block"`
	}
	jobGroup struct {
		Name     string            `hcl:"name,label"`
		Count    int               `hcl:"count,optional"`
		Meta     map[string]string `hcl:"meta,optional"`
		Networks []jobNetwork      `hcl:"network,block"`
		Services []jobService      `hcl:"service,block"`
		Rest     hcl.Body          `hcl:",remain"`
	}
	jobNetwork struct {
		Mode  string    `hcl:"mode,optional"`
		Ports []jobPort `hcl:"port,block"`
		CNI   *struct {
			Args map[string]string `hcl:"args"`
		} `hcl:"cni,block"`
		DNS *struct {
			Servers  []string `hcl:"servers,optional"`
			Searches []string `hcl:"searches,optional"`
			Options  []string `hcl:"options,optional"`
		} `hcl:"dns,block"`
	}
	jobPort struct {
		Label  string `hcl:"label,label"`
		Static int    `hcl:"static,optional"`
		To     int    `hcl:"to,optional"`
	}
	jobService struct {
		Connect *struct {
			Rest hcl.Body `hcl:",remain"`
		} `hcl:"connect,block"`
		Rest hcl.Body `hcl:",remain"`
	}
)

// ofClient are variables that are interpolated by the client. The parser leaves them as they are.
var ofClient = regexp.MustCompile(`\$(\{(?:NOMAD_|node\.|attr\.|meta\.))`)

// ParseJob returns the groups of a job specification.
func ParseJob(text string) ([]Group, error) {
	file, faults := hclsyntax.ParseConfig(ofClient.ReplaceAll([]byte(text), []byte("$$$$$1")), "job", hcl.InitialPos)
	if faults.HasErrors() {
		return nil, faults
	}
	var parsed jobFile
	functions := map[string]function.Function{"jsonencode": stdlib.JSONEncodeFunc}
	if faults := gohcl.DecodeBody(file.Body, &hcl.EvalContext{Functions: functions}, &parsed); faults.HasErrors() {
		return nil, faults
	}
	var groups []Group
	for _, g := range parsed.Job.Groups {
		group := g.group()
		group.Region, group.Namespace, group.Job = parsed.Job.Region, parsed.Job.Namespace, parsed.Job.ID
		groups = append(groups, group)
	}
	return groups, nil
}

func (g jobGroup) group() Group {
	group := Group{Name: g.Name, Count: g.Count, Meta: g.Meta}
	for _, service := range g.Services {
		group.Connect = group.Connect || service.Connect != nil
	}
	for _, n := range g.Networks {
		network := Network{Mode: n.Mode}
		if n.CNI != nil {
			network.Args = n.CNI.Args
		}
		if n.DNS != nil {
			network.DNS = &DNS{n.DNS.Servers, n.DNS.Searches, n.DNS.Options}
		}
		for _, port := range n.Ports {
			network.Ports = append(network.Ports, Port(port))
		}
		group.Networks = append(group.Networks, network)
	}
	return group
}
