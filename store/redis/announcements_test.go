package redis_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/store/storetest"
)

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	storetest.TestAnnouncements(t, open(t, redistest.Shared(t).URL(), redistest.Prefix(t), nil))
}
