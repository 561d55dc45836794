//go:build linux

package kubetest

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// The identities of the file of tokens.
const (
	adminUser       = "admin"
	controllersUser = "controllers"
	// testAgent is this package's own user agent.
	testAgent = "kubetest"
)

// auditPolicy logs who did what to which resource, after the request.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// files are the configuration files of a cluster's servers, and their logs.
type files struct {
	folder                  string
	adminToken, systemToken string
}

func newFiles(folder string) (*files, error) {
	f := &files{folder: folder, adminToken: rand.Text(), systemToken: rand.Text()}
	server, accounts := testpki.New("kube-apiserver"), testpki.New("service-accounts")
	contents := map[string][]byte{
		"server.crt": server.CertPEM(), "server.key": server.KeyPEM(),
		"accounts.crt": accounts.CertPEM(), "accounts.key": accounts.KeyPEM(),
		"audit.yaml": []byte(auditPolicy),
		"tokens.csv": fmt.Appendf(nil, "%s,%s,1,system:masters\n%s,%s,2,system:masters\n", f.adminToken, adminUser, f.systemToken, controllersUser),
	}
	for name, content := range contents {
		if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *files) path(name string) string { return filepath.Join(f.folder, name) }

// kubeconfig writes a kubeconfig with the token, and returns its name.
func (f *files) kubeconfig(name, server, token string) (string, error) {
	path := f.path(name + ".kubeconfig")
	return path, os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: test, user: {token: %q}}]
`, server, f.path("server.crt"), token), 0o600)
}
