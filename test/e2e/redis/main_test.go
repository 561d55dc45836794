//go:build linux

package redis

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{})
	goleak.VerifyTestMain(m)
}

// quiet drops the driver's lines about connections that come and go.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
