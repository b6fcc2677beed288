// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/state"
)

// CheckPlugins runs CHECK of plugins that allocnet does not know.
func CheckPlugins(ctx context.Context, o *operation.Operation, a state.Attachment) (skipped string, err error) {
	list, err := onrecord.List(a)
	if err == nil {
		list, err = onrecord.ListToCheck(list, a, o.Record.Attachments)
	}
	if err != nil {
		return "", err
	}
	if list.DisableCheck {
		return "the network has disableCheck", nil
	}
	if o.Config.MadeByOtherIPTables(a) {
		return fmt.Sprintf("its plugins made rules with iptables-%s, and the host's iptables is another one now", a.IPTables), nil
	}
	cni, err := withRecorded(o, o.Config.Processes(o.Hold, o.AttachmentLog(a)), a, list)
	if err != nil {
		return "", err
	}
	err = cni.CheckNetworkList(ctx, list, o.RuntimeConf(a, list, o.Record.Allocation.Netns))
	if errors.Is(err, libcni.ErrorCheckNotSupp) {
		return fmt.Sprintf("cniVersion %s has no CHECK", list.CNIVersion), nil
	}
	return "", err
}

// withRecorded returns what runs CHECK with the result that is on record.
func withRecorded(o *operation.Operation, plugins invoke.Exec, a state.Attachment, list *libcni.NetworkConfigList) (*libcni.CNIConfig, error) {
	runner, err := o.Runner(plugins, o.Record.Allocation.Netns)
	if err != nil {
		return nil, err
	}
	exec := &checkExec{Exec: runner}
	// libcni is given no cache: what is there another operation may be writing.
	return libcni.NewCNIConfigWithCacheDir(o.Config.DirsOf(a), os.DevNull, exec), setResult(o, exec, a, list)
}

// checkExec has plugins check the result that is on record.
type checkExec struct {
	invoke.Exec
	result json.RawMessage
	// addresses are those of the result.
	addresses []netip.Prefix
}

// ExecPlugin runs a plugin with the result as prevResult.
func (x *checkExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	if x.result != nil && cniexec.Verb(environ) == "CHECK" {
		var conf map[string]json.RawMessage
		if err := json.Unmarshal(stdin, &conf); err != nil {
			return nil, err
		}
		conf["prevResult"] = x.result
		var err error
		if stdin, err = json.Marshal(conf); err != nil {
			return nil, err
		}
	}
	out, err := x.Exec.ExecPlugin(ctx, path, stdin, environ)
	if err != nil && filepath.Base(path) == "portmap" {
		err = inspect.JudgePortCheck(err, x.addresses)
	}
	return out, err
}

// setResult gives plugins the recorded result with the MACs that interfaces of the host have now, and the name of the
// end of the attachment's pair: a bridge without an address takes the lowest MAC of its ports, udev changes MACs that
// the kernel chose, operators rename links, and the reference plugins would call that a fault.
func setResult(o *operation.Operation, x *checkExec, a state.Attachment, list *libcni.NetworkConfigList) error {
	if a.Result == nil {
		return nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	end, err := onrecord.HostEnd(a, list)
	if err != nil {
		return err
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" || i.Mac == "" {
			continue
		}
		if end != nil && i.Name == end.Name {
			name, err := inspect.FindEnd(o.Config.Host, end)
			if err != nil {
				return err
			}
			i.Name = cmp.Or(name, i.Name)
		}
		mac, found, err := o.Config.Host.LinkMAC(i.Name)
		if err != nil {
			return err
		}
		if found {
			i.Mac = mac
		}
	}
	x.addresses = onrecord.InterfaceAddresses(result, a.Interface)
	x.result, err = onrecord.EncodeResult(result, list.CNIVersion)
	return err
}

// ParallelChecks is how many plugins that allocnet does not know run at once: each is a
// process, and it may hang.
const ParallelChecks = 4

// VerifyPause is between the look that sees damage and the one that confirms
// it.
const VerifyPause = 500 * time.Millisecond
