// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// crowd is a state with attachments of many jobs, of which rules allow each to reach the next one.
func crowd(rules, members int) filter.State {
	s := filter.State{}
	for i := range rules {
		s.Rules.Allow = append(s.Rules.Allow, isolation.Allow{
			Name: fmt.Sprintf("rule %d", i), From: isolation.Selector{Job: fmt.Sprintf("job%d", i), Namespace: "prod"},
			To: isolation.Selector{Job: fmt.Sprintf("job%d", i+1)}, Ports: []isolation.Ports{{Protocol: "tcp", First: 80, Last: 80}},
		})
	}
	for i := range members {
		s.Members = append(s.Members, member(i+1, fmt.Sprintf("job%d", i/2), "s", isolation.Strict, "br0"))
	}
	return s
}

// within runs a benchmark in an empty namespace with a bridge.
func within(b *testing.B, do func() error) {
	b.Helper()
	n, err := netns.New()
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	if err := n.Do(func() error { addBridges(b, "br0"); return do() }); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAdd adds and removes an attachment beside others: of a job that is there, and of one that is not.
func BenchmarkAdd(b *testing.B) {
	for _, size := range [][2]int{{0, 1}, {0, 1000}, {10000, 1}, {10000, 1000}} {
		s := crowd(size[0], size[1])
		for name, job := range map[string]string{"known": "job0", "new": "job9000"} {
			b.Run(fmt.Sprintf("%d_rules_%d_members_%s", size[0], size[1], name), func(b *testing.B) {
				within(b, func() error {
					err := kernel.Apply(b.Context(), source(s))
					more := member(70000, job, "s", isolation.Strict, "br0")
					for b.Loop() {
						err = errors.Join(err, kernel.Guard(b.Context(), more.ID, more.End, more.Bridge), admitBy(b, filter.RulesOf(s.Rules), more, source(s)))
						b.StopTimer()
						err = errors.Join(err, kernel.Remove(b.Context(), filter.RulesOf(s.Rules), more))
						if name == "new" {
							err = errors.Join(err, kernel.Apply(b.Context(), source(s)))
						}
						b.StartTimer()
					}
					return err
				})
			})
		}
	}
}

// BenchmarkRemove removes an attachment beside others.
func BenchmarkRemove(b *testing.B) {
	for _, size := range [][2]int{{0, 1}, {10000, 1000}} {
		s := crowd(size[0], size[1])
		b.Run(fmt.Sprintf("%d_rules_%d_members", size[0], size[1]), func(b *testing.B) {
			within(b, func() error {
				err := kernel.Apply(b.Context(), source(s))
				more := member(70000, "job0", "s", isolation.Strict, "br0")
				for b.Loop() {
					b.StopTimer()
					err = errors.Join(err, admitBy(b, filter.RulesOf(s.Rules), more, source(s)))
					b.StartTimer()
					err = errors.Join(err, kernel.Remove(b.Context(), filter.RulesOf(s.Rules), more))
				}
				return err
			})
		})
	}
}

// BenchmarkApply applies rules that have changed to a host with attachments, and looks what is missing.
func BenchmarkApply(b *testing.B) {
	for _, size := range [][2]int{{100, 100}, {10000, 1000}} {
		states := []filter.State{crowd(size[0], size[1]), crowd(size[0], size[1])}
		for i := range states[1].Rules.Allow {
			states[1].Rules.Allow[i].Ports[0] = isolation.Ports{Protocol: "udp", First: 80, Last: 90}
		}
		b.Run(fmt.Sprintf("%d_rules_%d_members", size[0], size[1]), func(b *testing.B) {
			within(b, func() error {
				err := kernel.Apply(b.Context(), source(states[1]))
				for i := 0; b.Loop(); i++ {
					err = errors.Join(err, kernel.Apply(b.Context(), source(states[i%2])))
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("lacks_%d_rules_%d_members", size[0], size[1]), func(b *testing.B) {
			within(b, func() error {
				err := kernel.Apply(b.Context(), source(states[0]))
				for b.Loop() {
					lacks, failed := kernel.Lacks(b.Context(), states[0])
					if err = errors.Join(err, failed); len(lacks) > 0 {
						return errors.New("something is missing")
					}
				}
				return err
			})
		})
	}
}

// BenchmarkTraffic sends between attachments to ptp networks with as many rules: latency is the time of an exchange of a byte, throughput that of
// a connection, and new the time of a connection.
func BenchmarkTraffic(b *testing.B) {
	for _, rules := range []int{-1, 0, 100, 10000} {
		name := fmt.Sprintf("%d_rules", rules)
		if rules < 0 {
			name = "no_tables"
		}
		ends := benchEnds(b, rules)
		b.Run("latency_"+name, func(b *testing.B) { exchange(b, ends, 1) })
		b.Run("throughput_"+name, func(b *testing.B) { exchange(b, ends, 1<<20) })
		b.Run("new_"+name, func(b *testing.B) {
			for b.Loop() {
				conn := ends.dial(b)
				_ = conn.Close()
			}
		})
	}
}

// benchPair are two attachments, of which the second answers.
type benchPair struct {
	inside *netns.Namespace
	to     netip.AddrPort
}

func (p *benchPair) dial(b *testing.B) (conn net.Conn) {
	err := p.inside.Do(func() (err error) {
		conn, err = net.Dial("tcp", p.to.String())
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

// exchange sends bytes, and awaits one.
func exchange(b *testing.B, p *benchPair, size int) {
	conn := p.dial(b)
	defer conn.Close()
	b.SetBytes(int64(size))
	out, in := make([]byte, size), make([]byte, 1)
	for b.Loop() {
		out[size-1] = 1 // the last one is answered
		_, err := conn.Write(out)
		if _, failed := io.ReadFull(conn, in); err != nil || failed != nil {
			b.Fatal(err, failed)
		}
	}
}

func benchEnds(b *testing.B, rules int) *benchPair {
	b.Helper()
	host, inside := newNamespace(b), []*netns.Namespace{newNamespace(b), newNamespace(b)}
	state := crowd(max(rules, 0), 200)
	err := host.Do(func() error {
		run(b, "sysctl", "-qw", "net.ipv4.ip_forward=1")
		addBridges(b, "br0")
		for i, n := range inside {
			m := member(80000+i, fmt.Sprintf("job%d", i), fmt.Sprintf("p%d", i), isolation.None, "")
			if rules > 0 {
				m.Level, m.Antispoof = isolation.Strict, true
			}
			state.Members = append(state.Members, m)
			run(b, "ip", "link", "add", m.End, "type", "veth", "peer", "name", "eth0", "netns", n.Handle())
			run(b, "ip", "addr", "add", "169.254.1.1/32", "dev", m.End)
			run(b, "ip", "link", "set", m.End, "up")
			run(b, "ip", "route", "add", m.Addresses[0].String(), "dev", m.End)
		}
		if rules < 0 {
			return nil
		}
		return kernel.Apply(b.Context(), source(state))
	})
	for i, n := range inside {
		err = errors.Join(err, n.Do(func() error {
			run(b, "ip", "addr", "add", state.Members[200+i].Addresses[0].String()+"/32", "dev", "eth0")
			run(b, "ip", "link", "set", "eth0", "up")
			run(b, "ip", "route", "add", "169.254.1.1", "dev", "eth0")
			run(b, "ip", "route", "add", "default", "via", "169.254.1.1")
			return nil
		}))
	}
	err = errors.Join(err, inside[1].Do(func() error { return answer(b) }))
	if err != nil {
		b.Fatal(err)
	}
	return &benchPair{inside[0], netip.AddrPortFrom(state.Members[201].Addresses[0], 80)}
}

// answer answers each byte that is one.
func answer(b *testing.B) error {
	listener, err := net.Listen("tcp", ":80")
	if err != nil {
		return err
	}
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 1<<20)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if buffer[n-1] == 1 {
						_, _ = conn.Write(buffer[n-1 : n])
					}
				}
			}()
		}
	}()
	return nil
}
