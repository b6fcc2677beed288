// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// state is that of a flow, as e2e/traffic prints it.
type state struct {
	Flow       string `json:"flow"`
	Sent, Lost int
	// Recent are packets that are not counted yet.
	Recent int
	GapMS  int64 `json:"gapMS"`
	Flows  bool
}

// sender sends a packet every 50 ms on each of its flows.
type sender struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// send starts flows between two peers, by IPv4 and IPv6, on the networks that both have.
func (s *scene) send(from, to peer) *sender {
	s.Helper()
	return s.sendOn(from, to, shared(from.machine.Name, to.machine.Name)...)
}

// sendOn is send on given networks.
func (s *scene) sendOn(from, to peer, on ...string) *sender {
	s.Helper()
	words := []string{"traffic", "send"}
	for _, network := range on {
		for i, address := range to.addresses[network] {
			words = append(words, fmt.Sprintf("%s→%s,%s,IPv%d=%s", from.machine.Name, to.machine.Name, network, 4+2*i, address))
		}
	}
	return s.start(from.command(words...))
}

// control starts a flow from a client itself to another one.
func (s *scene) control(from, to int) *sender {
	s.Helper()
	a, b := lab.Clients[from], lab.Clients[to]
	if !b.Runs("traffic") {
		must(s, b.Start("traffic", "traffic", "serve"))
	}
	return s.start(a.Command("traffic", "send", fmt.Sprintf("%s→%s=%s", a.Name, b.Name, b.Address)))
}

func (s *scene) start(cmd *exec.Cmd) *sender {
	s.Helper()
	flows := &sender{cmd: cmd}
	in, err := flows.cmd.StdinPipe()
	must(s, err)
	out, err := flows.cmd.StdoutPipe()
	must(s, err)
	flows.in, flows.out = in, json.NewDecoder(out)
	must(s, flows.cmd.Start())
	s.Cleanup(func() { _ = errors.Join(flows.in.Close(), flows.cmd.Wait()) }) // its machine may be gone
	return flows
}

func (s *sender) ask(line string) (states []state, err error) {
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		return nil, err
	}
	err = s.out.Decode(&states)
	return states, err
}
