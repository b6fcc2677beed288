// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// contentVersion is in each content. A later one may have more fields; one that means
// something else has another Prefix.
const contentVersion = 1

// MaxContent limits the contents that are read and written, in bytes. Nomad's variables have
// at most 64 KiB.
const MaxContent = 64 << 10

// mostText limits what errors quote of a content, in bytes.
const mostText = 200

// envelope is how a content is stored.
type envelope struct {
	Version int `json:"version"`
	// Checksum is that of Content without white space.
	Checksum string          `json:"checksum"`
	Content  json.RawMessage `json:"content"`
}

// Encode returns a PoolContent, BlockContent, AddressContent or NodeContent as it is stored.
func Encode(content any) []byte {
	data := marshal(content)
	return marshal(envelope{Version: contentVersion, Checksum: checksum(data), Content: data})
}

// marshal encodes a type of this package, which always succeeds.
func marshal(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err))
	}
	return data
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func decode(data []byte, to any) error {
	if len(data) > MaxContent {
		return fmt.Errorf("the content has %d bytes: want at most %d", len(data), MaxContent)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("the content is not JSON: %w", shorten(err))
	}
	if e.Version != contentVersion {
		return fmt.Errorf("the content has the version %d: want %d", e.Version, contentVersion)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Content); err != nil {
		return fmt.Errorf("there is no content: %w", err)
	}
	if sum := checksum(compact.Bytes()); sum != e.Checksum {
		return fmt.Errorf("the content has the checksum %.64q: want %s", e.Checksum, sum)
	}
	if err := json.Unmarshal(e.Content, to); err != nil {
		return fmt.Errorf("the content is of another kind: %w", shorten(err))
	}
	return nil
}

// shorten limits the text of an error, which may quote what another host wrote.
func shorten(err error) error {
	text := err.Error()
	if len(text) <= mostText {
		return err
	}
	return errors.New(strings.ToValidUTF8(text[:mostText], "") + "...")
}

// DecodePool reads the configuration of a pool.
func DecodePool(data []byte, pool string) (PoolContent, error) {
	var content PoolContent
	err := decode(data, &content)
	if err == nil && content.Pool != pool {
		err = fmt.Errorf("the content is of the pool %.64q: want %s", content.Pool, pool)
	}
	if err == nil {
		_, err = content.Config()
	}
	return content, err
}

// DecodeBlock reads whose a block is.
func DecodeBlock(data []byte, c *Config) (BlockContent, error) {
	var content BlockContent
	if err := decode(data, &content); err != nil {
		return content, err
	}
	if content.Pool != c.Pool {
		return content, fmt.Errorf("the content is of the pool %.64q: want %s", content.Pool, c.Pool)
	}
	if !content.Block.IsValid() {
		return content, fmt.Errorf("the content has no block")
	}
	if _, ok := c.Slots(FamilyOf(content.Block.Addr())).Index(content.Block); !ok {
		return content, fmt.Errorf("the content has %s, which is no block of the pool %s", content.Block, c.Pool)
	}
	return content, content.Host.validate()
}

// DecodeAddress reads whose a reserved address is.
func DecodeAddress(data []byte, c *Config) (AddressContent, error) {
	var content AddressContent
	if err := decode(data, &content); err != nil {
		return content, err
	}
	switch {
	case content.Pool != c.Pool:
		return content, fmt.Errorf("the content is of the pool %.64q: want %s", content.Pool, c.Pool)
	case content.State != Held && content.State != Free:
		return content, fmt.Errorf("the content has the state %.64q: want %s or %s", content.State, Held, Free)
	case !c.IsReserved(content.Address):
		return content, fmt.Errorf("the content has %.64s, which is not reserved in the pool %s", content.Address, c.Pool)
	case content.State == Free && content.Host == Host{}:
		return content, nil
	}
	return content, content.Host.validate()
}

// DecodeNode reads which host has an instance's identity.
func DecodeNode(data []byte) (NodeContent, error) {
	var content NodeContent
	if err := decode(data, &content); err != nil {
		return content, err
	}
	return content, content.Host.validate()
}

// validate checks what owns blocks.
func (h Host) validate() error {
	if !IsInstance(h.Instance) {
		return fmt.Errorf("the content has the instance %.64q: want 32 hexadecimal digits", h.Instance)
	}
	return nil
}
