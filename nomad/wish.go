// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// MetaKey is the group's meta that names networks, in either form of package
// selection.
const MetaKey = "allocnet.networks"

// cniMode begins the mode of a network block that names a CNI network.
const cniMode = "cni/"

// uuid is the form of Nomad's allocation IDs.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// WishError is a job that asks for networks in a way that cannot be met.
type WishError struct {
	Allocation, Place, Reason string
}

func (e *WishError) Error() string {
	return fmt.Sprintf("allocation %s: %s: %s", e.Allocation, e.Place, e.Reason)
}

// Kind is that of package errdefs.
func (*WishError) Kind() errdefs.Kind { return errdefs.Refused }

// Networks returns the networks that the job of an allocation asks for besides
// its first: in further network blocks of the group with a mode of cni/NAME, in
// their order, then in the group's meta. What was read once is kept, as a job
// that changes gets other allocations; so a server is not needed when an
// allocation is set up again. One that cannot be reached is tried until ctx
// ends. What is not Nomad's, whose IDs are UUIDs, has none.
func (c *Client) Networks(ctx context.Context, id string) ([]selection.Element, error) {
	if !uuid.MatchString(id) {
		return nil, nil
	}
	if kept, err := c.kept(id); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	a, err := c.allocation(ctx, id)
	if err != nil {
		return nil, err
	}
	elements, err := wishesOf(a)
	if err != nil {
		return nil, err
	}
	return elements, c.keep(id, elements)
}

// Forget drops what is kept of an allocation. One of which nothing is kept is
// no error.
func (c *Client) Forget(id string) error {
	if err := state.ValidateID(id); err != nil {
		return err
	}
	if err := os.Remove(c.wishPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Prune forgets all allocations but those that live: they were taken down
// without Forget. One that is forgotten too soon is asked for again.
func (c *Client) Prune(live map[string]bool) error {
	entries, err := os.ReadDir(c.config.WishDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		if id, _, _ := strings.Cut(entry.Name(), "."); !live[id] {
			errs = append(errs, os.Remove(filepath.Join(c.config.WishDir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// allocation asks until there is an answer. One that Nomad does not know is an
// error, because it says the same of one that the token may not read.
func (c *Client) allocation(ctx context.Context, id string) (*api.Allocation, error) {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		options, err := c.query(ctx)
		if err != nil {
			return nil, err
		}
		a, _, err := c.api.Allocations().Info(id, options)
		var answered api.UnexpectedResponseError
		switch {
		case err == nil:
			return a, nil
		case errors.As(err, &answered) && answered.StatusCode() == http.StatusNotFound:
			return nil, &WishError{id, "nomad", "knows no such allocation, or the token has no read-job in its namespace"}
		case errors.As(err, &answered) && answered.StatusCode() < http.StatusInternalServerError:
			return nil, fmt.Errorf("ask nomad for allocation %s: %w", id, err)
		}
		c.log.Warn("nomad does not answer, asking again", "allocation", id, "in", pause.String(), "error", err)
		select {
		case <-ctx.Done():
			cause := context.Cause(ctx)
			return nil, errdefs.As(errdefs.Of(cause), fmt.Errorf("ask nomad for allocation %s: %w, after: %w", id, cause, err))
		case <-time.After(pause):
		}
	}
}

// wishesOf reads the job of an allocation.
func wishesOf(a *api.Allocation) ([]selection.Element, error) {
	group := a.GetTaskGroup()
	if group == nil {
		return nil, &WishError{a.ID, "group " + a.TaskGroup, "the job has no such group"}
	}
	elements, err := blocks(a.ID, group.Networks)
	if err != nil {
		return nil, err
	}
	text := group.Meta[MetaKey]
	if strings.Contains(text, "${") {
		return nil, &WishError{a.ID, "meta " + MetaKey, fmt.Sprintf("%q has a variable, which Nomad does not replace there", text)}
	}
	named, err := selection.Parse(text)
	if err != nil {
		return nil, &WishError{a.ID, "meta " + MetaKey, err.Error()}
	}
	return append(elements, named...), nil
}

// blocks reads the network blocks after the first. Those without a CNI mode
// are left as Nomad leaves them, and those that name their network by CNI
// arguments are the plugin's matter.
func blocks(id string, networks []*api.NetworkResource) ([]selection.Element, error) {
	var elements []selection.Element
	for i, network := range networks {
		name, isCNI := strings.CutPrefix(network.Mode, cniMode)
		if i == 0 || !isCNI {
			continue
		}
		if network.CNI != nil {
			if _, named := network.CNI.Args["networks."+name]; named {
				continue
			}
		}
		e, err := selection.ParseElement(name, "")
		if err != nil {
			return nil, &WishError{id, fmt.Sprintf("network[%d].mode", i), err.Error()}
		}
		elements = append(elements, e)
	}
	return elements, nil
}

func (c *Client) wishPath(id string) string { return filepath.Join(c.config.WishDir, id+".json") }

func (c *Client) kept(id string) ([]selection.Element, error) {
	data, err := os.ReadFile(c.wishPath(id))
	if err != nil {
		return nil, err
	}
	elements, err := selection.Parse(string(data))
	if err == nil && !bytes.HasPrefix(data, []byte("[")) {
		err = errors.New("want a JSON list")
	}
	if err != nil { // cut short by a power cut; Nomad is asked again
		c.log.Warn("what is kept of an allocation's networks cannot be read", "path", c.wishPath(id), "error", err)
		return nil, fs.ErrNotExist
	}
	return elements, nil
}

// keep writes a file at once or not at all.
func (c *Client) keep(id string, elements []selection.Element) error {
	if elements == nil {
		elements = []selection.Element{}
	}
	data, err := json.Marshal(elements)
	if err == nil {
		err = os.MkdirAll(c.config.WishDir, 0o700)
	}
	if err != nil {
		return err
	}
	making := c.wishPath(id) + ".new"
	file, err := os.OpenFile(making, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(making, c.wishPath(id))
}
