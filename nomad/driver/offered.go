// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/state"
)

// offeredFile has the names of the attributes that were sent to Nomad. The node keeps
// them when this process dies. The next process removes those that do not exist any
// more.
const offeredFile = "offered.json"

// stateRoot opens the state directory if the engine has accepted it. A directory
// that it refused may be writable for other users, who could replace the file by a
// symbolic link.
func (s *settings) stateRoot() (*os.Root, error) {
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	return os.OpenRoot(cmp.Or(s.current().StateDir, state.DefaultDir))
}

// offered returns the attributes that an earlier process sent, with empty values. It
// returns none without the file.
func (s *settings) offered() *proto.FingerprintResponse {
	last := &proto.FingerprintResponse{Attributes: map[string]*proto.Attribute{}}
	var names []string
	data, err := s.readOffered()
	if err != nil || json.Unmarshal(data, &names) != nil {
		return last
	}
	for _, name := range names {
		if strings.HasPrefix(strings.TrimPrefix(name, "unique."), prefix) {
			last.Attributes[name] = text("")
		}
	}
	return last
}

func (s *settings) readOffered() ([]byte, error) {
	root, err := s.stateRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // a directory
	file, err := root.OpenFile(offeredFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	return io.ReadAll(file)
}

// saveOffered writes the names of the attributes. A failure matters only if this
// process dies.
func (s *settings) saveOffered(now *proto.FingerprintResponse) {
	if err := s.writeOffered(slices.Sorted(maps.Keys(now.Attributes))); err != nil {
		s.log.Debug("cannot write the names of the node attributes", "error", err)
	}
}

func (s *settings) writeOffered(names []string) error {
	root, err := s.stateRoot()
	if err != nil {
		return err
	}
	data, err := json.Marshal(names)
	if err == nil {
		err = networkstatus.Replace(root, offeredFile, data)
	}
	return errors.Join(err, root.Close())
}
