// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ec2metadata says that no machine is in that cloud.
package ec2metadata

import (
	"errors"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/session"
)

// EC2Metadata is what a machine of the cloud would know of itself.
type EC2Metadata struct{}

// New returns that of none.
func New(*session.Session, ...*aws.Config) *EC2Metadata { return &EC2Metadata{} }

// GetMetadata fails, as on a machine elsewhere.
func (*EC2Metadata) GetMetadata(string) (string, error) {
	return "", errors.New("this machine is in no cloud")
}
