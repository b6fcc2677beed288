// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package storetest has what each ipam.Store must do, as tests, and a Fake in memory that is
// proven by them.
package storetest
