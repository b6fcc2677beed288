// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// workerMark is in the environment of workers, with the backend of their iptables.
const (
	workerMark = "ALLOCNET_DIFFERENTIAL_WORKER"
	nftMark    = "nft"
	legacyMark = "legacy"
)

// worker is a process with a host of its own: network and mount namespaces, /run and /var/lib.
type worker struct {
	process *exec.Cmd
	input   io.Closer
	out     *gob.Encoder
	in      *gob.Decoder
}

// answer is what a worker says about a configuration.
type answer struct {
	// Differences are empty if there are none.
	Differences []string
	// Failure is why the configuration could not be compared.
	Failure string
}

// idle are the workers that have nothing to do, and legacy that whose iptables has the old
// backend of the kernel. A nil one is not started yet.
var idle, legacy = pool(parallel), pool(1)

func pool(size int) chan *worker {
	workers := make(chan *worker, size)
	for range size {
		workers <- nil
	}
	return workers
}

// compare has a worker compare a configuration.
func compare(t *testing.T, c configuration) answer {
	t.Helper()
	workers, mark := idle, nftMark
	if c.Legacy {
		workers, mark = legacy, legacyMark
	}
	w := <-workers
	defer func() { workers <- w }()
	if w == nil {
		var err error
		if w, err = startWorker(mark); err != nil {
			t.Fatal(err)
		}
	}
	var a answer
	if err := errors.Join(w.out.Encode(c), w.in.Decode(&a)); err != nil {
		w = nil
		t.Fatalf("the worker failed: %v", err)
	}
	return a
}

// starting is held while a worker is started: Pdeathsig is about the thread.
var starting sync.Mutex

func startWorker(mark string) (*worker, error) {
	starting.Lock()
	defer starting.Unlock()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workerMark+"="+mark, "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{cmd, in, gob.NewEncoder(in), gob.NewDecoder(out)}, cmd.Start()
}

// stopWorkers ends the workers that are started. The tests are done.
func stopWorkers() {
	for _, workers := range []chan *worker{idle, legacy} {
		for range cap(workers) {
			if w := <-workers; w != nil {
				_ = w.input.Close()
				_ = w.process.Wait()
			}
		}
	}
}

// serve is the main function of a worker. It ends with its input.
func serve() int {
	h, err := newHost(os.Getenv(workerMark) == legacyMark)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "prepare a host:", err)
		return 1
	}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var c configuration
		if err := in.Decode(&c); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "read a configuration:", err)
			return 1
		}
		var a answer
		run := h.compare
		if c.Healthy {
			run = h.healthy
		}
		if a.Differences, err = run(c); err != nil {
			a.Failure = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return 1
		}
	}
}
