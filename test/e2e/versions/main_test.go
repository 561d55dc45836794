//go:build linux

package versions

import (
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

func TestMain(m *testing.M) { os.Exit(kit.RunWithoutLeaks(m)) }
