// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseJob(t *testing.T) {
	got, err := ParseJob(`job "db" {
  namespace = "prod"
  group "a" {
    count = 2
    meta  = { "allocnet.networks" = "mgmt" }
    network {
      mode = "cni/multi"
      port "http" {
        static = 80
      }
      port "sql" {
        to = 5432
      }
      cni {
        args = {
          "networks.b" = jsonencode({ ips = ["10.0.0.${NOMAD_ALLOC_INDEX}/24"] })
          rack         = "${meta.rack}"
        }
      }
      dns {
        servers = ["192.0.2.1"]
      }
    }
    network {
      mode = "cni/storage"
    }
    service {
      connect {
        sidecar_service {}
      }
    }
    task "t" {
      driver = "exec"
      config {
        command = "${NOMAD_TASK_DIR}/x"
      }
    }
  }
}`)
	want := []Group{{Namespace: "prod", Job: "db", Name: "a", Count: 2, Meta: map[string]string{"allocnet.networks": "mgmt"}, Connect: true, Networks: []Network{
		{
			Mode: "cni/multi", Ports: []Port{{Label: "http", Static: 80}, {Label: "sql", To: 5432}},
			Args: map[string]string{"networks.b": `{"ips":["10.0.0.${NOMAD_ALLOC_INDEX}/24"]}`, "rack": "${meta.rack}"},
			DNS:  &DNS{Servers: []string{"192.0.2.1"}},
		},
		{Mode: "cni/storage"},
	}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, text := range []string{"job {", "job \"a\" {\n}\n", `job "a" { group "g" { network { cni {} } } }`} {
		if groups, err := ParseJob(text); err == nil && len(groups) > 0 {
			t.Errorf("%s: %+v", text, groups)
		}
	}
}
