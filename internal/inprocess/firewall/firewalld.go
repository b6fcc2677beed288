// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/godbus/dbus/v5"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
)

// Where firewalld is on the bus; see firewalld.dbus(5).
const (
	firewalldName = "org.fedoraproject.FirewallD1"
	firewalldPath = dbus.ObjectPath("/org/fedoraproject/FirewallD1")
	zoneInterface = firewalldName + ".zone."
)

// Beginnings of errors of firewalld by which a source is as wanted.
const (
	alreadySource = "ZONE_ALREADY_SET"
	noSource      = "UNKNOWN_SOURCE"
)

// firewalldBackend is the name of the backend of the plugin firewall.
const firewalldBackend = "firewalld"

// Where the D-Bus daemon listens, and where its policies are: firewalld can only have its name on the bus if one allows it.
var (
	busSocket         = "/run/dbus/system_bus_socket"
	firewalldPolicies = []string{"/usr/share/dbus-1/system.d/FirewallD.conf", "/etc/dbus-1/system.d/FirewallD.conf"}
)

var errNoFirewalld = errors.New("firewalld does not run")

// sources are the addresses of an attachment as sources of a zone, which lets their packets through until firewalld is
// reloaded.
type sources struct {
	ctx       context.Context
	firewalld interface {
		CallWithContext(ctx context.Context, method string, flags dbus.Flags, args ...any) *dbus.Call
	}
	zone      string
	addresses []string
}

// withSources does something with the sources of an attachment, and tells whether firewalld is the backend. If it does not
// run, there are no sources, and what it does not filter passes: only ADD fails then, with errNoFirewalld, if the configuration
// requires it.
func (conf *config) withSources(c *plugin.Call, result *current.Result, do func(*sources) error) (bool, error) {
	if conf.Backend == rules.BackendIPTables {
		return false, nil
	}
	err := withFirewalld(c.Ctx, func(ctx context.Context, firewalld dbus.BusObject) error {
		s := &sources{ctx: ctx, firewalld: firewalld, zone: cmp.Or(conf.FirewalldZone, "trusted")}
		for _, address := range result.IPs {
			network := links.HostNetwork(address.Address.IP)
			s.addresses = append(s.addresses, network.String())
		}
		return do(s)
	})
	isRequired := conf.Backend == firewalldBackend
	if errors.Is(err, errNoFirewalld) && (c.Verb != "ADD" || !isRequired) {
		return isRequired, nil
	}
	return true, err
}

// Source is an address of an attachment that may be a source of a zone.
type Source struct {
	Zone    string
	Address netip.Addr
}

func (s Source) on(ctx context.Context, firewalld dbus.BusObject) *sources {
	address := netip.PrefixFrom(s.Address, s.Address.BitLen()).String()
	return &sources{ctx: ctx, firewalld: firewalld, zone: s.Zone, addresses: []string{address}}
}

// FindSources returns those that are sources now. Where firewalld does not run there are none.
func FindSources(ctx context.Context, wanted []Source) (found []Source, err error) {
	err = withFirewalld(ctx, func(ctx context.Context, firewalld dbus.BusObject) error {
		for _, s := range wanted {
			on := s.on(ctx, firewalld)
			is, err := on.has(on.addresses[0])
			if err != nil {
				return err
			}
			if is {
				found = append(found, s)
			}
		}
		return nil
	})
	return found, unlessNone(err)
}

// RemoveSource removes one. That it is none is no error.
func RemoveSource(ctx context.Context, s Source) error {
	return unlessNone(withFirewalld(ctx, func(ctx context.Context, firewalld dbus.BusObject) error { return s.on(ctx, firewalld).remove() }))
}

// unlessNone is the error, unless it is that firewalld does not run.
func unlessNone(err error) error {
	if errors.Is(err, errNoFirewalld) {
		return nil
	}
	return err
}

// withFirewalld does something with firewalld. The error is errNoFirewalld if it does not run.
func withFirewalld(ctx context.Context, do func(context.Context, dbus.BusObject) error) error {
	const limit = 20 * time.Second // its daemon may hang
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s: %w", limit, context.DeadlineExceeded))
	defer stop()
	conn, err := dialFirewalld(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to send
	return do(ctx, conn.Object(firewalldName, firewalldPath))
}

// dialFirewalld connects to the bus. The error is errNoFirewalld where there is no bus, or no firewalld on it. Where firewalld is not
// installed the bus is not asked: it may be out of order.
func dialFirewalld(ctx context.Context) (*dbus.Conn, error) {
	if isMissing(busSocket) || !slices.ContainsFunc(firewalldPolicies, func(path string) bool { return !isMissing(path) }) {
		return nil, errNoFirewalld
	}
	conn, err := dbus.Connect("unix:path="+busSocket, dbus.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("connect to %s, to ask for firewalld: %w", busSocket, cmp.Or(context.Cause(ctx), err)) // err: it is closed
	}
	var runs bool
	if err = conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, firewalldName).Store(&runs); err == nil && !runs {
		err = errNoFirewalld
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (s *sources) call(method, address string, into any) error {
	err := s.firewalld.CallWithContext(s.ctx, zoneInterface+method, 0, s.zone, address).Store(into)
	if err != nil {
		return fmt.Errorf("firewalld: %s of the address %s and the zone %s: %w", method, address, s.zone, err)
	}
	return nil
}

func (s *sources) add() error {
	for _, address := range s.addresses {
		if err := s.addOne(address); err != nil {
			return err
		}
	}
	return nil
}

// addOne makes an address a source. One that is a source of the zone already is no error.
func (s *sources) addOne(address string) error {
	var zone string
	if err := s.call("addSource", address, &zone); err != nil && !strings.Contains(err.Error(), alreadySource) {
		return err
	}
	return nil
}

// remove removes all. One that is none is no error.
func (s *sources) remove() error {
	var errs []error
	var zone string
	for _, address := range s.addresses {
		if err := s.call("removeSource", address, &zone); err != nil && !strings.Contains(err.Error(), noSource) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *sources) has(address string) (is bool, err error) {
	err = s.call("querySource", address, &is)
	return is, err
}

// repair adds those that are missing: firewalld forgets all when it is reloaded.
func (s *sources) repair(r *remedy.Repair) error {
	for _, address := range s.addresses {
		is, err := s.has(address)
		if err != nil {
			return err
		}
		if is {
			continue
		}
		if err := r.Ensure(fmt.Sprintf("source %s of firewalld's zone %s", address, s.zone), func() error { return s.addOne(address) }); err != nil {
			return err
		}
	}
	return nil
}
