//go:build linux

package keda

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // or KEDA's client shows each call that fails
	os.Exit(m.Run())
}
