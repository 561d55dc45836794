package redis_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	o := &opener{url: redistest.Shared(b).URL()}
	storetest.Benchmark(b, func(t testing.TB) storetest.Engine { return o.open(t, redistest.Prefix(t), nil) }, 100_000)
}
