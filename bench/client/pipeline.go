package client

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/bench/bare"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// Pipeline returns a load of pipelines directly to Redis, each with that many scripts
// of package bare that write a value of that size.
func Pipeline(c *redis.Client, targets, scripts, valueBytes int) load.Call {
	script, value := redis.NewScript(bare.Script), make([]byte, valueBytes)
	keys := make([]string, targets)
	for i := range keys {
		keys[i] = "bare:" + request.Name(i)
	}
	return func(ctx context.Context, caller int) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range scripts {
				_ = script.EvalSha(ctx, p, keys[(caller*scripts+i)%targets:][:1], bare.Version, value, bare.Lifetime).Err()
			}
			return nil
		})
		return err
	}
}
