// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package rest sends requests to Nomad's HTTP API with the standard library only, for programs
// that start in a millisecond. Answers are limited in time and size, since others write what is
// in them.
package rest
