//go:build linux

package redis

import (
	"context"
	"os"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{})
	os.Exit(kit.RunWithoutLeaks(m))
}

// quiet drops the driver's lines about connections that come and go.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
