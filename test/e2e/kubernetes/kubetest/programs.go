//go:build linux

package kubetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// programs is where the programs of a cluster are.
type programs struct {
	etcd       string
	kubernetes string // folder of kube-apiserver, kube-controller-manager and kubectl
}

var findPrograms = sync.OnceValues(func() (programs, error) {
	root, err := repository()
	if err != nil {
		return programs{}, err
	}
	etcd, err := script(root, "etcd.sh")
	if err != nil {
		return programs{}, err
	}
	kubernetes, err := script(root, "kubernetes.sh")
	return programs{etcd: filepath.Join(etcd, "etcd"), kubernetes: kubernetes}, err
})

func (p programs) path(name string) string { return filepath.Join(p.kubernetes, name) }

// repository is the folder of the module that this one replaces.
func repository() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/setpoint-dev/setpoint").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// script runs one that builds programs where they are missing, and prints their folder.
func script(root, name string) (string, error) {
	cmd := exec.Command(filepath.Join(root, "scripts", name))
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/%s: %w", name, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// Require skips the test if a cluster's programs can't be had here. Where CI is set
// it fails.
func Require(t testing.TB) {
	t.Helper()
	_, err := findPrograms()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skipf("no Kubernetes to test with: %v", err)
	}
}
