// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	structs "github.com/hashicorp/nomad/plugins/shared/structs/proto"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/cniconf/watch"
	"github.com/allocnet/allocnet/internal/version"
)

// recount is between two counts of free addresses. What they count changes with
// every allocation, and every change is one of the node in Nomad's servers.
const recount = time.Minute

// prefix begins the names of the node attributes.
const prefix = "driver." + Name

// Fingerprint streams what the conf directory offers, first as it is and then
// whenever it has changed.
func (d *Driver) Fingerprint(_ *proto.FingerprintRequest, stream proto.Driver_FingerprintServer) error {
	confDirs, pluginDirs := d.dirs()
	changed, err := watch.Dirs(stream.Context(), slices.Concat(confDirs, pluginDirs)...)
	if err != nil { // without inotify there is still the clock
		d.log.Warn("conf directory is looked at once a minute only", "error", err)
	}
	ticker := time.NewTicker(recount)
	defer ticker.Stop()
	last := d.offered()
	for {
		now := d.fingerprint()
		if !reflect.DeepEqual(last, now) {
			if err := stream.Send(withForgotten(last, now)); err != nil {
				return err
			}
			last = now
			d.remember(now)
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// withForgotten adds the attributes that are no more, empty: so Nomad deletes
// them.
func withForgotten(last, now *proto.FingerprintResponse) *proto.FingerprintResponse {
	attributes := maps.Clone(now.Attributes)
	for name := range last.Attributes {
		if _, ok := attributes[name]; !ok {
			attributes[name] = text("")
		}
	}
	return &proto.FingerprintResponse{Attributes: attributes, Health: now.Health, HealthDescription: now.HealthDescription}
}

// dirs are the directories whose changes matter.
func (d *Driver) dirs() (conf, plugins []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config.ConfDirs, cniconf.PluginDirs(d.config.PluginDirs)
}

// fingerprint describes the node as it is now. The driver is healthy as long as
// it can attach to any network; what it cannot attach to is not offered.
func (d *Driver) fingerprint() *proto.FingerprintResponse {
	attributes := map[string]*structs.Attribute{}
	fail := func(reason string) *proto.FingerprintResponse {
		return &proto.FingerprintResponse{Attributes: attributes, Health: proto.FingerprintResponse_UNHEALTHY, HealthDescription: clean(reason)}
	}
	attributes[prefix] = text("1")
	attributes[prefix+".version"] = text(version.Version)
	if _, err := d.ready(); err != nil {
		return fail(err.Error())
	}
	confDirs, pluginDirs := d.dirs()
	catalog, err := cniconf.Load(confDirs...)
	if err != nil {
		return fail(err.Error())
	}
	usable, problems := catalog.Usable(pluginDirs).Split()
	for _, n := range usable {
		maps.Copy(attributes, networkAttributes(n))
	}
	if len(usable) == 0 {
		return fail("no network can be attached to; " + strings.Join(confDirs, ", ") + " has none that is usable" + join("; ", problems))
	}
	return &proto.FingerprintResponse{Attributes: attributes, Health: proto.FingerprintResponse_HEALTHY, HealthDescription: clean(description(problems))}
}

func description(problems []error) string {
	if len(problems) == 0 {
		return "Healthy"
	}
	return "Degraded: " + strings.TrimPrefix(join("; ", problems), "; ")
}

// join puts the separator before each problem.
func join(separator string, problems []error) string {
	var b strings.Builder
	for _, problem := range problems {
		b.WriteString(separator + problem.Error())
	}
	return b.String()
}

// networkAttributes are those of one network. The number of free addresses is in
// the namespace "unique", which Nomad leaves out when it sorts nodes into
// classes: it differs on every node at every time.
func networkAttributes(n *cniconf.Network) map[string]*structs.Attribute {
	name := prefix + ".network." + n.Name
	attributes := map[string]*structs.Attribute{name: text("1")}
	if mtu := configuredMTU(n); mtu > 0 {
		attributes[name+".mtu"] = text(strconv.Itoa(mtu))
	}
	pool, ok := addressPool(n)
	if !ok {
		return attributes
	}
	attributes[name+".subnet"] = text(pool.subnets())
	if free, err := pool.free(); err == nil {
		attributes["unique."+name+".free"] = text(fmt.Sprint(free))
	}
	return attributes
}

func text(s string) *structs.Attribute {
	return &structs.Attribute{Value: &structs.Attribute_StringVal{StringVal: s}}
}
