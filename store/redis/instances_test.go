package redis_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/store/storetest"
)

func TestInstancesKnowOfEachOther(t *testing.T) {
	t.Parallel()
	storetest.TestInstances(t, open(t, redistest.Shared(t).URL(), redistest.Prefix(t), nil))
}
