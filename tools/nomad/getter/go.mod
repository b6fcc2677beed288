// In place of go-getter, in the Nomad of the tests.
module github.com/hashicorp/go-getter

go 1.26.0
