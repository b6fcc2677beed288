// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// pace is the time between two packets of a flow. It is enough to see an interruption: tests have thirty flows, and each packet
// crosses several namespaces, twice.
const pace = 50 * time.Millisecond

// send sends numbered packets to servers until stdin ends. For each line of stdin it prints
// the state of all flows; after the line "reset", they begin anew.
func send(flows []string) error {
	var all []*flow
	for _, word := range flows {
		name, address, found := strings.Cut(word, "=")
		if !found {
			return fmt.Errorf("flow %q: want NAME=ADDRESS", word)
		}
		connection, err := net.Dial("udp", net.JoinHostPort(address, echo))
		if err != nil {
			return fmt.Errorf("flow %s: %w", name, err)
		}
		if err := enlarge(connection.(*net.UDPConn)); err != nil {
			return err
		}
		f := &flow{name: name, connection: connection}
		go f.receive()
		go f.send()
		all = append(all, f)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := report(all, lines.Text() == "reset"); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err())
}

func report(all []*flow, reset bool) error {
	var states []State
	for _, f := range all {
		states = append(states, f.state(reset))
	}
	return json.NewEncoder(os.Stdout).Encode(states)
}
