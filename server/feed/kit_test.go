package feed_test

import (
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nopLogger() *zap.Logger { return zap.NewNop() }
