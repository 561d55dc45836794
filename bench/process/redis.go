package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Redis is a server without persistence.
type Redis struct {
	*process.Process
	Address string
	Client  *redis.Client
	ports   *process.Ports
}

// StartRedis starts one and waits until it responds.
func StartRedis(ctx context.Context, folder string) (*Redis, error) {
	ports, err := process.Reserve(1)
	if err != nil {
		return nil, err
	}
	return startRedis(ctx, folder, ports)
}

// startRedis starts one at the first of the ports, with more directives.
func startRedis(ctx context.Context, folder string, ports *process.Ports, directives ...string) (r *Redis, err error) {
	address := ports.Address(0)
	r = &Redis{Address: address, Client: redis.NewClient(&redis.Options{Addr: address}), ports: ports}
	args := []string{"--bind", "127.0.0.1", "--port", ports.Number(0), "--save", "", "--appendonly", "no", "--dir", folder}
	r.Process, err = process.Start(process.Command{
		Name: "redis-server", Program: "redis-server", Log: filepath.Join(folder, "redis.log"), Args: append(args, directives...),
	})
	if err != nil {
		return nil, err
	}
	if err := r.Await("ready", process.Patience, func() error { return r.Client.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// URL is for the service's flag.
func (r *Redis) URL() string { return "redis://" + r.Address }

// Stop implements Process.Stop.
func (r *Redis) Stop() error {
	_ = r.Client.Close()
	defer r.ports.Release()
	return r.Process.Stop()
}

// UsedMemory returns what the server has allocated, in bytes.
func (r *Redis) UsedMemory(ctx context.Context) (float64, error) {
	return r.info(ctx, "Memory", "used_memory")
}

// Network returns the bytes that clients have sent and received so far.
func (r *Redis) Network(ctx context.Context) (in, out float64, err error) {
	if in, err = r.info(ctx, "Stats", "total_net_input_bytes"); err == nil {
		out, err = r.info(ctx, "Stats", "total_net_output_bytes")
	}
	return in, out, err
}

func (r *Redis) info(ctx context.Context, section, field string) (float64, error) {
	info, err := r.Client.InfoMap(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info[section][field], 64)
}

// Commands returns how often each command was executed so far, those that scripts call
// among them.
func (r *Redis) Commands(ctx context.Context) (map[string]float64, error) {
	info, err := r.Client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	commands := map[string]float64{}
	for name, value := range info["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if commands[strings.TrimPrefix(name, "cmdstat_")], err = strconv.ParseFloat(calls, 64); err != nil {
			return nil, fmt.Errorf("INFO commandstats: %s: %w", name, err)
		}
	}
	return commands, nil
}

// sampled is how many keys are sampled.
const sampled = 20_000

// MemoryOf estimates what all keys of a type take, in bytes, from a sample of keys.
func (r *Redis) MemoryOf(ctx context.Context, kind string) (float64, error) {
	total, err := r.Client.DBSize(ctx).Result()
	if err != nil || total == 0 {
		return 0, err
	}
	seen, bytes := 0, int64(0)
	keys := r.Client.Scan(ctx, 0, "*", 1000).Iterator()
	for seen < sampled && keys.Next(ctx) {
		seen++
		if is, err := r.Client.Type(ctx, keys.Val()).Result(); err != nil || is != kind {
			continue
		}
		size, err := r.Client.MemoryUsage(ctx, keys.Val()).Result()
		if err != nil {
			return 0, err
		}
		bytes += size
	}
	return float64(bytes) / float64(max(1, seen)) * float64(total), keys.Err()
}
