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

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/cniconf/watch"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// countInterval is the time between two counts of free addresses. The number changes
// with every allocation, and each change updates the node in Nomad's servers.
const countInterval = time.Minute

// prefix is the prefix of the node attributes.
const prefix = "driver." + Name

// streamFingerprint streams the usable networks as node attributes: the present ones, and
// then each change.
func (d *driver) streamFingerprint(_ *emptypb.Empty, stream grpc.ServerStreamingServer[proto.FingerprintResponse]) error {
	c := d.settings.current()
	changed, err := watch.Dirs(stream.Context(), slices.Concat(c.ConfDirs, cniconf.PluginDirs(c.PluginDirs))...)
	if err != nil { // the ticker still fires
		d.log.Warn("cannot watch the CNI configuration directories, reading them once a minute", "error", err)
	}
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	last := d.settings.offered()
	for {
		now := d.settings.fingerprint()
		if !reflect.DeepEqual(last, now) {
			if err := stream.Send(withRemoved(last, now)); err != nil {
				return err
			}
			last = now
			d.settings.saveOffered(now)
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// withRemoved adds each attribute that does not exist any more, with an empty value:
// Nomad then deletes it.
func withRemoved(last, now *proto.FingerprintResponse) *proto.FingerprintResponse {
	attributes := maps.Clone(now.Attributes)
	for name := range last.Attributes {
		if _, ok := attributes[name]; !ok {
			attributes[name] = text("")
		}
	}
	return &proto.FingerprintResponse{Attributes: attributes, Health: now.Health, HealthDescription: now.HealthDescription}
}

// fingerprint returns the present attributes and health. The driver is healthy if at
// least one network is usable. It offers no other networks.
func (s *settings) fingerprint() *proto.FingerprintResponse {
	attributes := map[string]*proto.Attribute{}
	fail := func(reason string) *proto.FingerprintResponse {
		return &proto.FingerprintResponse{Attributes: attributes, Health: proto.FingerprintResponse_UNHEALTHY, HealthDescription: validUTF8(reason)}
	}
	attributes[prefix] = text("1")
	attributes[prefix+".version"] = text(version.Version)
	if _, err := s.ready(); err != nil {
		return fail(err.Error())
	}
	config := s.current()
	catalog, err := cniconf.Load(config.ConfDirs...)
	if err != nil {
		return fail(err.Error())
	}
	usable, problems := config.Usable(catalog).Split()
	for _, n := range usable {
		maps.Copy(attributes, networkAttributes(n))
	}
	if len(usable) == 0 {
		return fail("no usable network in " + strings.Join(config.ConfDirs, ", ") + join("; ", problems))
	}
	return &proto.FingerprintResponse{Attributes: attributes, Health: proto.FingerprintResponse_HEALTHY, HealthDescription: validUTF8(description(problems))}
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

// networkAttributes returns the attributes of one network. The number of free
// addresses has the prefix "unique", which Nomad excludes from the node class: it is
// different on every node.
func networkAttributes(n *cniconf.Network) map[string]*proto.Attribute {
	name := prefix + ".network." + n.Name
	attributes := map[string]*proto.Attribute{name: text("1")}
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

func text(s string) *proto.Attribute {
	return &proto.Attribute{StringVal: &s}
}
