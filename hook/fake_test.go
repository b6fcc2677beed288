// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/listener"
	"github.com/allocnet/allocnet/internal/netns"
)

// memory is an engine whose plugins, namespaces and host are in memory. Only its
// records, libcni's cache and its configuration are files.
type memory struct {
	*Engine
	exec       *fakeExec
	namespaces *fakeNamespaces
	host       *fakeHost
	confDir    string
}

// newMemory returns an engine without networks, which does not wait between
// attempts. edit may be nil.
func newMemory(t *testing.T, edit func(*Config)) *memory {
	t.Helper()
	namespaces := &fakeNamespaces{at: map[string]*fakeNamespace{}}
	m := &memory{exec: &fakeExec{namespaces: namespaces}, namespaces: namespaces, host: &fakeHost{withoutIPv6: map[string]bool{}}, confDir: t.TempDir()}
	c := Config{
		ConfDirs: []string{m.confDir}, PluginDirs: []string{t.TempDir()}, StateDir: t.TempDir(), CacheDir: t.TempDir(),
		NetnsDir: t.TempDir(), IsolationFile: filepath.Join(m.confDir, "no-isolation"), Filter: newFakeFilter(), ResolvConfDir: t.TempDir(), HostResolvConf: []string{filepath.Join(m.confDir, "no-resolv.conf")}, PolicyFile: filepath.Join(m.confDir, "no-policy"), Exec: m.exec, Namespaces: namespaces, Host: m.host, Cleaner: NoCleaner,
	}
	if edit != nil {
		edit(&c)
	}
	var err error
	if m.Engine, err = NewEngine(c); err != nil {
		t.Fatal(err)
	}
	m.env.Config.Pause = func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }
	m.leaks = noLeaks
	return m
}

// noLeaks is a host without leaks, in place of that of the test.
func noLeaks(context.Context, GCRequest, cleanup.Live) (*cleanup.Report, error) {
	return &cleanup.Report{}, nil
}

// network adds a network to the CNI configuration directory. A plugin is its type,
// or a JSON object.
func (m *memory) network(t *testing.T, name string, plugins ...string) {
	t.Helper()
	for i, plugin := range plugins {
		if !strings.HasPrefix(plugin, "{") {
			plugins[i] = fmt.Sprintf(`{"type": %q}`, plugin)
		}
		var conf struct{ Type string }
		if err := json.Unmarshal([]byte(plugins[i]), &conf); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.env.Config.PluginDirs[0], conf.Type), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	list := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": %q, "plugins": [%s]}`, name, strings.Join(plugins, ", "))
	if err := os.WriteFile(filepath.Join(m.confDir, name+".conflist"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fakeExec records the calls of plugins. By itself the first ADD of a chain puts an
// interface with an address into the namespace, whose other end is veth0000000a unless the
// plugin is ipvlan, DEL of any but tuning removes it, and every other call succeeds. What is called after
// its context has ended fails with the cause.
type fakeExec struct {
	version.PluginDecoder
	namespaces *fakeNamespaces
	// answer, unless it is nil, is asked first. done is whether result and err are
	// the plugin's; otherwise it does what it does by itself.
	answer func(ctx context.Context, c fakeCall) (done bool, result []byte, err error)

	mu    sync.Mutex
	calls []fakeCall
}

// fakeCall is one call of a plugin.
type fakeCall struct {
	Plugin, Verb string
	Stdin        []byte
	Environ      map[string]string
}

func newFakeCall(path string, stdin []byte, environ []string) fakeCall {
	c := fakeCall{Plugin: filepath.Base(path), Stdin: slices.Clone(stdin), Environ: map[string]string{}}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "CNI_") {
			c.Environ[name] = value
		}
	}
	c.Verb = c.Environ["CNI_COMMAND"]
	return c
}

// String is such as "ADD bridge eth0".
func (c fakeCall) String() string {
	return strings.TrimSpace(strings.Join([]string{c.Verb, c.Plugin, c.Environ["CNI_IFNAME"]}, " "))
}

// object is what ADD makes outside of the namespace, and DEL removes.
func (c fakeCall) object() string {
	return c.Plugin + " " + c.Environ["CNI_CONTAINERID"] + " " + c.Environ["CNI_IFNAME"]
}

// names returns the calls so far, in order, and forgets them.
func (x *fakeExec) names() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for _, c := range x.calls {
		names = append(names, c.String())
	}
	x.calls = nil
	return names
}

func (x *fakeExec) FindInPath(plugin string, dirs []string) (string, error) {
	return filepath.Join(dirs[0], plugin), nil
}

func (x *fakeExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil { // no process is started then
		return nil, err
	}
	c := newFakeCall(path, stdin, environ)
	x.mu.Lock()
	x.calls = append(x.calls, c)
	number := len(x.calls)
	x.mu.Unlock()
	if x.answer != nil {
		if done, result, err := x.answer(ctx, c); done {
			return result, err
		}
	}
	return x.succeed(c, number)
}

func (x *fakeExec) succeed(c fakeCall, number int) ([]byte, error) {
	var conf struct {
		CNIVersion string          `json:"cniVersion"`
		PrevResult json.RawMessage `json:"prevResult"`
		Args       struct {
			Gateway string `json:"gateway"`
		} `json:"args"`
		DNS    json.RawMessage   `json:"dns"`
		Sysctl map[string]string `json:"sysctl"`
	}
	if err := json.Unmarshal(c.Stdin, &conf); err != nil {
		return nil, err
	}
	iface, path := c.Environ["CNI_IFNAME"], c.Environ["CNI_NETNS"]
	switch {
	case path == "" && (c.Verb == "ADD" || c.Verb == "CHECK"):
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "required env variables [CNI_NETNS] missing", "")
	case c.Verb == "ADD" && conf.PrevResult != nil:
		return conf.PrevResult, x.namespaces.tune(path, iface, conf.Sysctl)
	case c.Verb == "ADD":
		mac, address := fmt.Sprintf("02:00:00:00:00:%02x", number), fmt.Sprintf("10.0.0.%d/24", number)
		for _, pair := range strings.Split(c.Environ["CNI_ARGS"], ";") { // what is requested
			if requested, ok := strings.CutPrefix(pair, "IP="); ok {
				address = requested + "/24"
			} else if requested, ok := strings.CutPrefix(pair, "MAC="); ok {
				mac = requested
			}
		}
		x.namespaces.add(path, netns.Interface{Name: iface, MAC: mac, MTU: 1500, Up: true, Link: 9, LinkOutside: true, Addresses: []netip.Prefix{netip.MustParsePrefix(address)}})
		gateway := ""
		if conf.Args.Gateway != "" {
			gateway = fmt.Sprintf(`, "gateway": %q`, conf.Args.Gateway)
		}
		dns := ""
		if conf.DNS != nil {
			dns = fmt.Sprintf(`, "dns": %s`, conf.DNS)
		}
		end, inside := `{"name": "veth0000000a", "mac": "02:00:00:00:00:99"}, `, 1
		if c.Plugin == "ipvlan" {
			end, inside = "", 0
		}
		return fmt.Appendf(nil, `{"cniVersion": %q, "interfaces": [%s{"name": %q, "mac": %q, "sandbox": %q}], "ips": [{"interface": %d, "address": %q%s}]%s}`,
			conf.CNIVersion, end, iface, mac, path, inside, address, gateway, dns), nil
	case c.Verb == "DEL" && c.Plugin != "tuning":
		x.namespaces.removeInterface(path, iface)
	}
	return nil, nil
}

// TestFakeExec holds the fake to fakecni, which is held to real plugins: with a namespace,
// and with CNI_NETNS empty.
func TestFakeExec(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	fakecni.Install(t, dir)
	list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "fakecni"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	plugin := libcni.NewCNIConfigWithCacheDir([]string{dir}, t.TempDir(), nil)
	fake := libcni.NewCNIConfigWithCacheDir([]string{dir}, t.TempDir(), &fakeExec{namespaces: &fakeNamespaces{at: map[string]*fakeNamespace{}}})
	for _, path := range []string{"/run/netns/c", ""} {
		rt := &libcni.RuntimeConf{ContainerID: "c", NetNS: path, IfName: "eth0"}
		for i, call := range []func(*libcni.CNIConfig) error{
			func(c *libcni.CNIConfig) error { _, err := c.AddNetworkList(t.Context(), list, rt); return err },
			func(c *libcni.CNIConfig) error { return c.CheckNetworkList(t.Context(), list, rt) },
			func(c *libcni.CNIConfig) error { return c.DelNetworkList(t.Context(), list, rt) },
			func(c *libcni.CNIConfig) error { return c.DelNetworkList(t.Context(), list, rt) },
			func(c *libcni.CNIConfig) error { return c.GetStatusNetworkList(t.Context(), list) },
			func(c *libcni.CNIConfig) error { return c.GCNetworkList(t.Context(), list, nil) },
		} {
			got, want := call(fake), call(plugin)
			if fmt.Sprint(got) != fmt.Sprint(want) || (want != nil) != (path == "" && i < 2) {
				t.Errorf("namespace %q, call %d: %v, want %v", path, i, got, want)
			}
		}
	}
}

// fakeNamespaces are network namespaces in memory, by path.
type fakeNamespaces struct {
	// fail, unless it is nil, is asked before each call for its error. op is the name
	// of the method.
	fail func(op, path string) error

	mu      sync.Mutex
	at      map[string]*fakeNamespace
	created int
	// handled is whether handles differ from paths; most fakes of plugins look for paths.
	handled bool
	// made are all, by ID.
	made map[string]*fakeNamespace
	// handles are those that were opened and not closed.
	handles int
}

func (n *fakeNamespaces) failure(op, path string) error {
	if n.fail == nil {
		return nil
	}
	return n.fail(op, path)
}

// tune sets parameters, as the plugin tuning does.
func (n *fakeNamespaces) tune(path, iface string, values map[string]string) (err error) {
	n.mu.Lock()
	ns := n.find(path)
	n.mu.Unlock()
	for key, value := range values {
		err = errors.Join(err, ns.SetParameter(strings.NewReplacer(".", "/", "IFNAME", iface).Replace(key), value))
	}
	return err
}

// create makes a namespace at a path in place of what is there.
func (n *fakeNamespaces) create(path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[path] = n.make()
	n.at[path].path = path
	return path
}

func (n *fakeNamespaces) New() (kernel.Namespace, error) {
	if err := n.failure("New", ""); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handles++
	return n.make(), nil
}

// make makes a namespace without a path, under the lock.
func (n *fakeNamespaces) make() *fakeNamespace {
	n.created++
	ns := &fakeNamespace{all: n, id: fmt.Sprintf("namespace %d", n.created)}
	if n.made == nil {
		n.made = map[string]*fakeNamespace{}
	}
	n.made[ns.id] = ns
	return ns
}

func (n *fakeNamespaces) Open(path string) (kernel.Namespace, error) {
	if err := n.failure("Open", path); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if ns := n.find(path); ns != nil {
		n.handles++
		return ns, nil
	}
	return nil, &netns.MissingError{Path: path, Reason: "nothing is there"}
}

// find returns the namespace to which a path or a handle leads, under the lock.
func (n *fakeNamespaces) find(path string) *fakeNamespace {
	if id, ok := strings.CutPrefix(path, "/handle/"); ok {
		return n.made[id]
	}
	return n.at[path]
}

func (n *fakeNamespaces) Find(id string, _ time.Time) (kernel.Namespace, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ns := n.made[id]; ns != nil && ns.kept {
		n.handles++
		return ns, nil
	}
	return nil, &netns.MissingError{Path: id, Reason: "nothing holds it"}
}

func (n *fakeNamespaces) HavingMAC(mac string, _ time.Time) (found []kernel.Namespace, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ns := range n.made {
		if ns.kept && slices.ContainsFunc(ns.interfaces, func(i netns.Interface) bool { return i.MAC == mac }) {
			n.handles++
			found = append(found, ns)
		}
	}
	return found, nil
}

// leads tells whether a path or a handle leads to a namespace.
func (n *fakeNamespaces) leads(path string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.find(path) != nil
}

func (n *fakeNamespaces) Exists(path string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at[path] != nil
}

func (n *fakeNamespaces) Remove(path string) error {
	if err := n.failure("Remove", path); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, path)
	return nil
}

// add puts an interface into the namespace at a path, if there is one.
func (n *fakeNamespaces) add(path string, i netns.Interface) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ns := n.find(path); ns != nil {
		ns.interfaces = append(ns.interfaces, i)
		if ns.suspended {
			ns.withoutIPv6 = append(ns.withoutIPv6, i.Name)
		}
	}
}

func (n *fakeNamespaces) removeInterface(path, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ns := n.find(path); ns != nil {
		ns.interfaces = slices.DeleteFunc(ns.interfaces, func(i netns.Interface) bool { return i.Name == name })
		ns.withoutIPv6 = slices.DeleteFunc(ns.withoutIPv6, func(i string) bool { return i == name })
		ns.routes = slices.DeleteFunc(ns.routes, func(r netns.Route) bool { return r.Interface == name })
	}
}

// interfaces returns the names of the interfaces in the namespace at a path.
func (n *fakeNamespaces) interfaces(path string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	if ns := n.find(path); ns != nil {
		for _, i := range ns.interfaces {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names
}

// loopback is in every namespace of a runtime.
var loopback = netns.Interface{Name: "lo", MTU: 65536, Up: true}

// fakeNamespace is one of fakeNamespaces, whose lock it uses.
type fakeNamespace struct {
	all        *fakeNamespaces
	path, id   string
	interfaces []netns.Interface
	routes     []netns.Route
	acceptRA   []string
	// parameters are those that were set, each as its path and its value.
	parameters []string
	// withoutIPv6 are interfaces on which IPv6 is switched off, and suspended is whether new ones come so.
	withoutIPv6 []string
	suspended   bool
	// sources are the routing tables of interfaces, each once.
	sources []netns.SourceRoutes
	// announced is whether Announce was called, which fails.
	announced bool
	// kept is whether a process keeps it when it has no path.
	kept bool
}

func (n *fakeNamespace) ID() string { return n.id }

func (*fakeNamespace) Do(f func() error) error { return f() }

func (n *fakeNamespace) Handle() string {
	if n.all.handled {
		return "/handle/" + n.id
	}
	return n.path
}

func (n *fakeNamespace) Announce() error {
	n.announced = true
	return errors.New("operation not permitted")
}

func (n *fakeNamespace) Close() error {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.all.handles--
	return nil
}

func (n *fakeNamespace) Mount(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if err := n.all.failure("Mount", path); err != nil {
		return "", err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if n.all.at[path] != nil {
		return "", fmt.Errorf("%w: %s", netns.ErrExists, path)
	}
	n.path, n.all.at[path] = path, n
	return path, nil
}

func (n *fakeNamespace) Interfaces() ([]netns.Interface, error) {
	if err := n.all.failure("Interfaces", n.path); err != nil {
		return nil, err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	return slices.Clone(n.interfaces), nil
}

func (n *fakeNamespace) RemoveInterface(name string) error {
	if err := n.all.failure("RemoveInterface", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.interfaces = slices.DeleteFunc(n.interfaces, func(i netns.Interface) bool { return i.Name == name })
	return nil
}

func (n *fakeNamespace) SetLoopbackUp() error {
	if err := n.all.failure("SetLoopbackUp", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	for i := range n.interfaces {
		n.interfaces[i].Up = n.interfaces[i].Up || n.interfaces[i].Name == "lo"
	}
	return nil
}

// SetAcceptRA notes it, such as "net1=false".
func (n *fakeNamespace) SetAcceptRA(iface string, accept bool) error {
	if err := n.all.failure("SetAcceptRA", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.acceptRA = append(n.acceptRA, fmt.Sprintf("%s=%t", iface, accept))
	return nil
}

// SetParameter notes it. There is none of an interface that does not exist.
func (n *fakeNamespace) SetParameter(path, value string) error {
	if err := n.all.failure("SetParameter", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if of := strings.Split(path, "/"); len(of) == 5 && of[3] != "all" && netns.Index(n.interfaces, of[3]) < 0 {
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	n.parameters = append(n.parameters, path+"="+value)
	return nil
}

// Parameter is what was set last, else 0.
func (n *fakeNamespace) Parameter(path string) (string, error) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	for _, set := range slices.Backward(n.parameters) {
		if value, ok := strings.CutPrefix(set, path+"="); ok {
			return value, nil
		}
	}
	return "0", nil
}

// RestoreAcceptRA notes it, such as "net1=false kept".
func (n *fakeNamespace) RestoreAcceptRA(iface string, accept bool) error {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.acceptRA = append(n.acceptRA, fmt.Sprintf("%s=%t%s", iface, accept, kept))
	return nil
}

// kept marks what kept its addresses.
const kept = " kept"

// AcceptsRA: an interface ignores router advertisements unless the last call set it to accept
// them, as those of the kernel do in a namespace that allocnet made.
func (n *fakeNamespace) AcceptsRA(iface string, accept bool) (bool, error) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	last := false
	for _, set := range n.acceptRA {
		if name, value, _ := strings.Cut(set, "="); name == iface {
			last = strings.TrimSuffix(value, kept) == "true"
		}
	}
	return last == accept, nil
}

func (n *fakeNamespace) IsIPv6Off(iface string) (bool, error) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	return slices.Contains(n.withoutIPv6, iface), nil
}

func (n *fakeNamespace) SwitchIPv6Off(iface string) error {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.withoutIPv6 = append(n.withoutIPv6, iface)
	return nil
}

func (n *fakeNamespace) SuspendIPv6() error { return n.suspend(true) }
func (n *fakeNamespace) ResumeIPv6() error  { return n.suspend(false) }

func (n *fakeNamespace) suspend(now bool) error {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.suspended = now
	return nil
}

// UsedTables: another program has the first table.
func (n *fakeNamespace) UsedTables() (map[int]bool, error) {
	if err := n.all.failure("UsedTables", n.path); err != nil {
		return nil, err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	used := map[int]bool{20000: true} // of those that attachments get
	for _, s := range n.sources {
		used[s.Table] = true
	}
	return used, nil
}

func (n *fakeNamespace) RoutesOf(iface string) ([]netns.TableRoute, error) {
	if err := n.all.failure("RoutesOf", n.path); err != nil {
		return nil, err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	var routes []netns.TableRoute
	for _, i := range n.interfaces {
		for _, address := range i.Addresses {
			if i.Name == iface {
				routes = append(routes, netns.TableRoute{Destination: address.Masked()})
			}
		}
	}
	for _, r := range n.routes {
		if r.Interface == iface {
			routes = append(routes, netns.TableRoute{Destination: netip.PrefixFrom(r.Gateway, 0).Masked(), Gateway: r.Gateway})
		}
	}
	return routes, nil
}

func (n *fakeNamespace) AddSourceRoutes(s netns.SourceRoutes) error {
	if err := n.all.failure("AddSourceRoutes", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.sources = append(n.sources, s)
	return nil
}

func (n *fakeNamespace) RemoveSourceRoutes(s netns.SourceRoutes) error {
	if err := n.all.failure("RemoveSourceRoutes", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.sources = slices.DeleteFunc(n.sources, func(other netns.SourceRoutes) bool { return reflect.DeepEqual(s, other) })
	return nil
}

func (n *fakeNamespace) MissingSourceRoutes(s netns.SourceRoutes) ([]string, error) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if slices.ContainsFunc(n.sources, func(other netns.SourceRoutes) bool { return reflect.DeepEqual(s, other) }) {
		return nil, nil
	}
	return []string{fmt.Sprintf("table %d", s.Table)}, nil
}

func (n *fakeNamespace) DefaultRoutes() ([]netns.Route, error) {
	if err := n.all.failure("DefaultRoutes", n.path); err != nil {
		return nil, err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	return slices.Clone(n.routes), nil
}

func (n *fakeNamespace) SetDefaultRoute(gateway netip.Addr, iface string) error {
	if err := n.all.failure("SetDefaultRoute", n.path); err != nil {
		return err
	}
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.routes = slices.DeleteFunc(n.routes, func(r netns.Route) bool { return r.Gateway.Is6() == gateway.Is6() })
	n.routes = append(n.routes, netns.Route{Interface: iface, Gateway: gateway})
	return nil
}

func (n *fakeNamespace) AddDefaultRoute(gateway netip.Addr, iface string) error {
	if others := netns.OfFamily(n.routes, gateway.Is6()); len(others) > 0 {
		return errors.New("there is another one")
	}
	return n.SetDefaultRoute(gateway, iface)
}

func (n *fakeNamespace) RemoveDefaultRoutes(iface string, v6 bool) error {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.routes = slices.DeleteFunc(n.routes, func(r netns.Route) bool {
		return r.Interface == iface && r.Gateway.IsValid() && r.Gateway.Is6() == v6
	})
	return nil
}

// fakeHost is a host, without bridges if the test has made none.
type fakeHost struct {
	listeners []listener.Listener
	// links are those of the host, by name.
	links    map[string]bool
	filtered int
	// interfaces are those of Interfaces.
	interfaces     []netns.Interface
	uplinkMTU      int
	iptables       string
	filtersBridges bool
	// withoutIPv6 are the links on which IPv6 is switched off.
	withoutIPv6 map[string]bool
	mu          sync.Mutex
	// gateways are those of GatewayMACs.
	gateways map[string]netip.Addr
	// unlisted is why its links cannot be listed.
	unlisted error
	// outside is why the process is not on it.
	outside error
	// guarded counts calls of GuardLoopback, and kept those of KeepAdvertised.
	guarded, kept atomic.Int32
	// listed counts calls of Addressed and Holder.
	listed atomic.Int32
	// announced are the calls of Announce, and unannounced their error.
	announced   []string
	unannounced error
	// bridges are those that allocnet has made, with their addresses.
	bridges map[string][]netip.Prefix
}

func (h *fakeHost) Outside() error { return h.outside }

func (h *fakeHost) GuardLoopback(context.Context) error {
	h.guarded.Add(1)
	return nil
}

func (h *fakeHost) KeepAdvertised() error {
	h.kept.Add(1)
	return nil
}

func (h *fakeHost) IPTables() string { return h.iptables }

func (h *fakeHost) Interfaces() ([]netns.Interface, error)                  { return h.interfaces, nil }
func (h *fakeHost) MayHold(netip.Addr) bool                                 { return false }
func (h *fakeHost) LinkMTU(name string) (int, bool, error)                  { return 0, h.links[name], nil }
func (h *fakeHost) GatewayMACs([]netip.Addr) (map[string]netip.Addr, error) { return h.gateways, nil }
func (h *fakeHost) UplinkMTU() (int, error)                                 { return h.uplinkMTU, nil }
func (*fakeHost) LinkMAC(string) (string, bool, error)                      { return "", false, nil }
func (h *fakeHost) FindLink(name, kind, mac string) (string, error) {
	if mac == "" {
		if slices.ContainsFunc(h.interfaces, func(i netns.Interface) bool { return i.Kind == kind && i.Name == name }) {
			return name, nil
		}
		return "", h.unlisted
	}
	at := slices.IndexFunc(h.interfaces, func(i netns.Interface) bool { return i.Kind == kind && i.MAC == mac })
	if at < 0 || !netns.IsPluginVeth(name) {
		return "", h.unlisted
	}
	return h.interfaces[at].Name, h.unlisted
}

func (h *fakeHost) FindBridge(name string) (netns.Bridge, bool, error) {
	return netns.Bridge{}, h.bridges[name] != nil, nil
}

func (h *fakeHost) WhyBridgeStays(name string, own []netip.Prefix) (string, error) {
	if h.bridges[name] != nil && !slices.Equal(h.bridges[name], own) {
		return "it has another address", nil
	}
	return "", nil
}

func (h *fakeHost) RemoveBridge(name string) error {
	delete(h.bridges, name)
	return nil
}

func (*fakeHost) PinMTU(string, int) error               { return nil }
func (*fakeHost) KeepBridge(string, int) (string, error) { return "", nil }

// Announce notes it, such as "net1 10.0.0.5".
func (h *fakeHost) Announce(_ kernel.Namespace, iface string, addresses []netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.announced = append(h.announced, strings.Trim(fmt.Sprint(iface, " ", addresses), "[]"))
	return h.unannounced
}

func (h *fakeHost) FiltersBridges() bool { return h.filtersBridges }
func (h *fakeHost) IsIPv6Off(link string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.withoutIPv6[link], nil
}

func (h *fakeHost) SwitchIPv6Off(link string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.withoutIPv6[link] = true
	return nil
}

func (*fakeHost) RestoreBridge(string, string) error        { return nil }
func (h *fakeHost) FilterBridges(hclog.Logger)              { h.filtered++ }
func (h *fakeHost) Listeners() ([]listener.Listener, error) { return h.listeners, nil }

func (h *fakeHost) Addressed() ([]netns.Interface, error) {
	h.listed.Add(1)
	return h.interfaces, nil
}

func (h *fakeHost) Holder(addresses []netip.Addr) (netip.Addr, string, error) {
	h.listed.Add(1)
	for _, i := range h.interfaces {
		for _, taken := range i.Addresses {
			if slices.Contains(addresses, taken.Addr()) {
				return taken.Addr(), i.Name, nil
			}
		}
	}
	return netip.Addr{}, "", nil
}
