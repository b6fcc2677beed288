// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/nomad"
)

// silentNomad reports that Nomad does not tell what it offers: networks with rules may be among that.
func (d *Doctor) silentNomad(r *Report) {
	if d.NomadSilent == nil {
		return
	}
	fix := "check NOMAD_ADDR, and NOMAD_CACERT if the agent has TLS"
	switch {
	case nomad.IsDenied(d.NomadSilent):
		fix = `set NOMAD_TOKEN to a token with a policy that has agent { policy = "read" }`
	case errdefs.Of(d.NomadSilent) == errdefs.Timeout:
		fix = "run allocnet doctor again when it answers"
	}
	r.addUnexamined("Nomad", "what it offers is not examined: "+d.NomadSilent.Error(), fix+"; or run it with --nomad-conf-dir, the cni_config_dir of the client")
}
