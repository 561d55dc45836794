//go:build linux

package versions

import (
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Run(m)) }
