// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/selection"
)

// attach embeds the engine. What a DEL leaves is removed by force, as
// Config.Cleaner is not set.
func attach(ctx context.Context, dir, netns string) error {
	engine, err := hook.NewEngine(hook.Config{
		ConfDirs: []string{dir}, StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
	})
	if err != nil {
		return err
	}
	web := selection.Element{Name: "web", Interface: "eth0"}
	allocation, err := engine.Setup(ctx, hook.Request{ID: "web-1", Netns: netns, Primary: &web})
	if err != nil {
		return err
	}
	fmt.Println(allocation.Addresses())
	return engine.Teardown(ctx, allocation.ID)
}

// A program attaches a network namespace that it has made to a network of the host.
func ExampleEngine() {
	dir, err := os.MkdirTemp("", "allocnet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err = attach(context.Background(), dir, "/run/netns/web-1")
	var missing *cniconf.NotFoundError
	if errors.As(err, &missing) {
		fmt.Printf("this host has no network %q\n", missing.Name)
	}
	// Output: this host has no network "web"
}
