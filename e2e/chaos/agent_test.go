// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/netns"
)

const socket = "/run/allocnet/agent.sock"

// daemon is an operation of the agent, with three requests at once.
type daemon struct {
	*host
	// stands is whether the allocations are set up before, dead whether their
	// namespaces are gone then.
	stands, dead bool
	work         func(ctx context.Context, i int) error
	cmd          *exec.Cmd
	ended        <-chan struct{}
}

// setUp sets the i-th allocation up.
func setUp(ctx context.Context, i int) error {
	_, err := client.New(socket).Setup(ctx, ids[i], api.Setup{
		Primary: api.Selection{{Name: "web"}}, Networks: api.Selection{{Name: "storage"}, {Name: "peer"}},
		Ports: []api.Port{{HostPort: 8090 + i, To: 80, Protocol: "tcp"}},
	})
	return err
}

func tearDown(ctx context.Context, i int) error { return client.New(socket).Teardown(ctx, ids[i]) }

func collectDead(ctx context.Context, _ int) error {
	_, err := client.New(socket).GC(ctx)
	return err
}

// serve starts the agent and waits until it is ready.
func (d *daemon) serve() {
	d.Helper()
	d.cmd = d.command("agent", "--log-level", "error")
	output, err := os.Create(filepath.Join(d.TempDir(), "output")) // a file, because plugins outlive a killed agent
	if err != nil {
		d.Fatal(err)
	}
	defer output.Close()
	d.cmd.Stdout, d.cmd.Stderr = output, output
	d.ended = d.launch(d.cmd).done
	d.await("the agent is ready", func() bool {
		select {
		case <-d.ended:
			text, _ := os.ReadFile(output.Name())
			d.Fatalf("the agent has ended: %s", text)
		default:
		}
		return client.New(socket).Ready(context.Background()) == nil
	})
}

// stop ends the agent with SIGTERM.
func (d *daemon) stop() {
	d.Helper()
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		d.Error(err)
	}
	<-d.ended
	if !d.cmd.ProcessState.Success() {
		d.Errorf("the agent ended with %v", d.cmd.ProcessState)
	}
}

// all calls a function for all allocations concurrently.
func (d *daemon) all(ctx context.Context, do func(ctx context.Context, i int) error) error {
	var requests sync.WaitGroup
	errs := make([]error, len(ids))
	for i := range ids {
		requests.Go(func() { errs[i] = do(ctx, i) })
	}
	requests.Wait()
	return errors.Join(errs...)
}

func (d *daemon) prepare() []string {
	d.Helper()
	d.serve()
	if !d.stands {
		return ids
	}
	if err := d.all(context.Background(), setUp); err != nil {
		d.Fatal(err)
	}
	for _, id := range ids {
		if !d.dead {
			break
		}
		if err := netns.Remove(netns.DefaultDir + "/" + id); err != nil {
			d.Fatal(err)
		}
	}
	return nil
}

func (d *daemon) start() run {
	ctx, giveUp := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // the client retries where the socket has no listener
		<-d.ended
		giveUp()
	}()
	go func() {
		_ = d.all(ctx, d.work) // killed or not
		close(done)
	}()
	return run{d.cmd.Process, done}
}

// repair starts the agent: each allocation is then attached to all networks or to none.
func (d *daemon) repair() {
	d.Helper()
	_ = d.cmd.Process.Kill() // if the operation ended before the kill
	<-d.ended
	d.serve()
	all, err := client.New(socket).Allocations(context.Background())
	if err != nil {
		d.Fatal(err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		d.Fatal(err)
	}
	if d.requireWhole(string(text)) > 0 {
		if err := d.all(context.Background(), tearDown); err != nil {
			d.Error(err)
		}
	}
	d.stop()
}
