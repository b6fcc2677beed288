// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"encoding/json"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"
)

// plugin executes the verbs of one type of the reference set.
type plugin struct {
	// config returns an empty configuration with all keys that the plugin understands, for
	// encoding/json.
	config func() any
	add    func(*call) (*current.Result, error)
	check  func(*call) error
	del    func(*call) error
	// understands refuses values of a configuration that are not executed in process; nil if
	// all are.
	understands func(config []byte) error
	// status tells why ADD would fail now; nil for plugins that cannot tell.
	status func(*call) error
	// repair makes what is missing of what add makes; see Repair. nil for those whose calls are
	// not repaired.
	repair func(*call) error
}

// plugins are the types that a chain may have.
var plugins = map[string]plugin{
	"bandwidth": {func() any { return &bandwidthConfig{} }, addBandwidth, checkBandwidth, delBandwidth, nil, nil, repairBandwidth},
	"bridge":    {func() any { return &bridgeConfig{} }, addBridge, checkBridge, delBridge, nil, nil, repairBridge},
	"firewall":  {func() any { return &firewallConfig{} }, addFirewall, checkFirewall, delFirewall, nil, nil, repairFirewall},
	"loopback":  {func() any { return &loopbackConfig{} }, addLoopback, checkLoopback, delLoopback, nil, nil, repairLoopback},
	"macvlan":   {func() any { return &macvlanConfig{} }, addMacvlan, checkMacvlan, delMacvlan, nil, nil, repairMacvlan},
	"portmap":   {func() any { return &portmapConfig{} }, addPortmap, checkPortmap, delPortmap, understandsPortmap, nil, repairPortmap},
	"ptp":       {func() any { return &ptpConfig{} }, addPTP, checkPTP, delPTP, nil, nil, repairPTP},
	"tuning":    {func() any { return &tuningConfig{} }, addTuning, checkTuning, delTuning, nil, nil, repairTuning},
}

// ipams are the types that the key "ipam" of a plugin may have. Their calls have the
// configuration of that plugin; config is that of the object under "ipam".
var ipams = map[string]plugin{
	ownIPAM:      {func() any { return &json.RawMessage{} }, addOwnIPAM, checkOwnIPAM, delOwnIPAM, understandsOwnIPAM, statusOwnIPAM, nil},
	"host-local": {func() any { return &allocator.IPAMConfig{} }, addHostLocal, checkHostLocal, delHostLocal, nil, nil, nil},
	"static":     {func() any { return &staticConfig{} }, addStatic, checkStatic, delStatic, nil, nil, nil},
}
