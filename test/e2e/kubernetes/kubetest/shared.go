//go:build linux

package kubetest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is a cluster that tests of the binary share.
type shared struct {
	config  Config
	mu      sync.Mutex
	cluster *Cluster
	folder  string
	err     error
}

var withNative, withoutNative = &shared{config: Config{Native: true}}, &shared{}

// Shared returns the cluster that the tests of a binary share, each in its own namespaces: with
// the native controller and DefaultSyncPeriod. The first call starts it, and Main ends it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	return withNative.get(t)
}

// SharedWithoutNative returns another such cluster, which does not have the native
// controller.
func SharedWithoutNative(t testing.TB) *Cluster {
	t.Helper()
	return withoutNative.get(t)
}

func (s *shared) get(t testing.TB) *Cluster {
	t.Helper()
	Require(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil && s.err == nil {
		s.cluster, s.err = s.start()
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

func (s *shared) start() (*Cluster, error) {
	var err error
	if s.folder, err = os.MkdirTemp("", "setpoint-kubernetes-"); err != nil {
		return nil, err
	}
	c, err := start(s.folder, s.config)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.folder))
	}
	return c, nil
}

func (s *shared) end(failed bool) error {
	if s.cluster == nil {
		return nil
	}
	if failed {
		fmt.Fprintf(os.Stderr, "logs of the cluster that tests shared:\n%s", s.cluster.logs())
	}
	return errors.Join(s.cluster.close(), os.RemoveAll(s.folder))
}

// Main runs the tests, ends the clusters that they shared, and exits:
//
//	func TestMain(m *testing.M) { kubetest.Main(m) }
//
// More tests than there are processors run at once, for they mostly wait.
func Main(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err) // the testing package has it
	}
	code := m.Run()
	if err := errors.Join(withNative.end(code != 0), withoutNative.end(code != 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
