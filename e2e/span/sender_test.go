// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"
)

// state is that of a flow, as e2e/traffic prints it.
type state struct {
	Flow       string `json:"flow"`
	Sent, Lost int
	GapMS      int64 `json:"gapMS"`
	Flows      bool
}

// sender sends a packet every 10 ms on each of its flows.
type sender struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// send starts flows between two peers, by IPv4 and IPv6, on the networks that both have.
func send(t *testing.T, from, to peer) *sender {
	t.Helper()
	return sendOn(t, from, to, shared(from.machine.Name, to.machine.Name)...)
}

// sendOn is send on given networks.
func sendOn(t *testing.T, from, to peer, on ...string) *sender {
	t.Helper()
	words := []string{"traffic", "send"}
	for _, network := range on {
		for i, address := range to.addresses[network] {
			words = append(words, fmt.Sprintf("%s→%s,%s,IPv%d=%s", from.machine.Name, to.machine.Name, network, 4+2*i, address))
		}
	}
	s := &sender{cmd: from.command(words...)}
	in, err := s.cmd.StdinPipe()
	must(t, err)
	out, err := s.cmd.StdoutPipe()
	must(t, err)
	s.in, s.out = in, json.NewDecoder(out)
	must(t, s.cmd.Start())
	t.Cleanup(func() { _ = errors.Join(s.in.Close(), s.cmd.Wait()) }) // its machine may be gone
	return s
}

func (s *sender) ask(line string) (states []state, err error) {
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		return nil, err
	}
	err = s.out.Decode(&states)
	return states, err
}
