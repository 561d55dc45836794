package process

import (
	"context"
	"net"
	"os/exec"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Redis is a server that keeps nothing on disk.
type Redis struct {
	*Process
	Address string
	Client  *redis.Client
}

// StartRedis starts one and waits until it answers.
func StartRedis(ctx context.Context, folder string) (*Redis, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("redis-server", "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", folder)
	r := &Redis{Address: address, Client: redis.NewClient(&redis.Options{Addr: address})}
	if r.Process, err = start(folder, "redis", cmd); err != nil {
		return nil, err
	}
	if err := r.await(func() error { return r.Client.Ping(ctx).Err() }); err != nil {
		_ = r.Stop()
		return nil, err
	}
	return r, nil
}

// URL is for the service's flag.
func (r *Redis) URL() string { return "redis://" + r.Address }

// Stop implements Process.Stop.
func (r *Redis) Stop() error {
	_ = r.Client.Close()
	return r.Process.Stop()
}

// UsedMemory returns what the server has allocated, in bytes.
func (r *Redis) UsedMemory(ctx context.Context) (float64, error) {
	info, err := r.Client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info["Memory"]["used_memory"], 64)
}

// sampled is how many keys are looked at.
const sampled = 20_000

// MemoryOf returns about what all keys of a type take, in bytes, from a sample of keys.
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
