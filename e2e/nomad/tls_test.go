// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// authority signs the certificates of a cluster.
type authority struct {
	*testing.T
	dir         string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// newAuthority writes dir/ca.pem.
func newAuthority(t *testing.T, dir string) authority {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := authority{T: t, dir: dir}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "ca"}}
	ca.certificate, ca.key = ca.sign(template, "ca")
	return ca
}

// sign writes dir/NAME.pem and dir/NAME-key.pem. The first certificate is self-signed.
func (ca authority) sign(c *x509.Certificate, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	ca.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.Fatal(err)
	}
	parent, signer := ca.certificate, ca.key
	if parent == nil {
		parent, signer = c, key
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		ca.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		ca.Fatal(err)
	}
	sandbox.WriteFile(ca, ca.dir+"/"+name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	sandbox.WriteFile(ca, ca.dir+"/"+name+"-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		ca.Fatal(err)
	}
	return signed, key
}

// leaf is a certificate with the TLS name of Nomad's agents.
func (ca authority) leaf(name string) {
	ca.Helper()
	ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"client.global.nomad", "server.global.nomad"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, name)
}

// client returns the TLS configuration of a client with the certificate "cli".
func (ca authority) client() *tls.Config {
	ca.Helper()
	pair, err := tls.LoadX509KeyPair(ca.dir+"/cli.pem", ca.dir+"/cli-key.pem")
	if err != nil {
		ca.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "client.global.nomad", MinVersion: tls.VersionTLS12}
}

// TestLongTLS uses a Nomad agent that requires client certificates.
func TestLongTLS(t *testing.T) {
	for _, file := range glob(t, "../../dist/conf/*.conflist") {
		sandbox.WriteFile(t, confDir+"/"+file[strings.LastIndexByte(file, '/')+1:], read(t, file))
	}
	pki, other := dir+"/pki", dir+"/other"
	ca := newAuthority(t, pki)
	for _, name := range []string{"agent", "cli"} {
		ca.leaf(name)
	}
	newAuthority(t, other).leaf("cli")
	a := newAgent(t)
	config := strings.ReplaceAll(sandbox.Run(t, "cat", dir+"/agent.hcl"), dataDir, dir+"/tls")
	sandbox.WriteFile(t, dir+"/agent.hcl", config+fmt.Sprintf(`
tls {
  http                = true
  verify_https_client = true
  ca_file             = "%[1]s/ca.pem"
  cert_file           = "%[1]s/agent.pem"
  key_file            = "%[1]s/agent-key.pem"
}
`, pki))
	a.TLS = ca.client()
	a.Start()
	sandbox.Run(t, allocnet, "attach", "stray", "--conf-dir", confDir, "--plugin-dir", sandbox.PluginDir(), "--primary", "storage")
	if err := netns.Remove("/run/netns/stray"); err != nil {
		t.Fatal(err)
	}
	d := &daemon{agent: a, client: client.New(agentSocket)}
	trusting := tlsSettings(pki+"/ca.pem", pki+"/cli", "client.global.nomad")
	for name, test := range map[string]struct{ settings, reason string }{
		"without a certificate":                  {tlsSettings(pki+"/ca.pem", "", "client.global.nomad"), "remote error: tls: certificate required"},
		"without the authority":                  {tlsSettings("", pki+"/cli", "client.global.nomad"), "unknown authority"},
		"with a certificate of another cluster":  {tlsSettings(pki+"/ca.pem", other+"/cli", "client.global.nomad"), "remote error: tls"},
		"with the authority of another cluster":  {tlsSettings(other+"/ca.pem", pki+"/cli", "client.global.nomad"), "unknown authority"},
		"with a certificate for another address": {tlsSettings(pki+"/ca.pem", pki+"/cli", "other"), "not other"},
	} {
		d.secure(test.settings)
		if got := d.metric(`allocnet_reconcile_rounds_total{outcome="unknown"}`); got == "0" {
			t.Errorf("%s: no round was unknown", name)
		}
		if _, err := os.Stat("/var/lib/allocnet/allocations/stray"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d.end(unix.SIGTERM)
		if text := d.log.String(); !strings.Contains(text, test.reason) {
			t.Errorf("%s: the log does not say %q:\n%s", name, test.reason, text)
		}
	}
	d.secure(trusting)
	defer d.end(unix.SIGTERM)
	if got := d.metric(`allocnet_reconcile_rounds_total{outcome="done"}`); got == "0" {
		t.Errorf("no round was done:\n%s", d.log.String())
	}
	if _, err := os.Stat("/var/lib/allocnet/allocations/stray"); !os.IsNotExist(err) {
		t.Errorf("the dead allocation is left: %v", err)
	}
	d.Await("the networks are in the node's metadata", func() bool { return d.networkMeta("storage") })
}

// tlsSettings are the TLS settings of the block nomad. Empty ones are left out.
func tlsSettings(ca, pair, name string) string {
	settings := fmt.Sprintf("tls_server_name = %q\n", name)
	if ca != "" {
		settings += fmt.Sprintf("ca_file = %q\n", ca)
	}
	if pair != "" {
		settings += fmt.Sprintf("cert_file = %q\nkey_file = %q\n", pair+".pem", pair+"-key.pem")
	}
	return settings
}

// secure starts the agent with these TLS settings.
func (d *daemon) secure(files string) {
	d.Helper()
	d.log.Reset()
	sandbox.WriteFile(d, dir+"/allocnet.hcl", fmt.Sprintf(`
conf_dir    = %q
plugin_dirs = [%q]
nomad {
  address  = "https://127.0.0.1:4646"
  events   = true
  metadata = true
  %s
}
reconcile {
  interval = "1h"
}
`, confDir, sandbox.PluginDir(), files))
	d.launch()
}

// networkMeta reports whether the node's metadata has a network.
func (d *daemon) networkMeta(name string) bool {
	var nodes []struct{ ID string }
	var node struct{ Meta map[string]string }
	return d.API("nodes", &nodes) == nil && len(nodes) == 1 && d.API("node/"+nodes[0].ID, &node) == nil &&
		node.Meta["allocnet.network."+name] == "true"
}
