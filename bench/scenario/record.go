package scenario

import (
	"context"
	"errors"
	"strings"

	"github.com/setpoint-dev/setpoint/bench/process"
)

// lookedAt is how many records are sampled for their size.
const lookedAt = 200

// recordBytes returns the mean size of the histories in Redis, in bytes. They are the
// strings that are neither a bare handler's nor written by the service's health check.
func recordBytes(ctx context.Context, r *process.Redis) (int, error) {
	sum, n := int64(0), int64(0)
	keys := r.Client.ScanType(ctx, 0, "*", 1000, "string").Iterator()
	for n < lookedAt && keys.Next(ctx) {
		size, err := r.Client.StrLen(ctx, keys.Val()).Result()
		if err != nil {
			return 0, err
		}
		if size > 0 && !strings.HasPrefix(keys.Val(), "bare:") {
			sum, n = sum+size, n+1
		}
	}
	if err := keys.Err(); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errors.New("redis has no histories")
	}
	return int(sum / n), nil
}
