package cost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/bench/client"
)

// relay forwards bytes between callers and a service, and counts them.
type relay struct {
	listener  net.Listener
	to        string
	out, back atomic.Int64
}

func startRelay(to string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, to: to}
	go r.accept()
	return r, nil
}

func (r *relay) accept() {
	for {
		caller, err := r.listener.Accept()
		if err != nil {
			return // it was closed
		}
		service, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = caller.Close()
			continue
		}
		go pass(service, caller, &r.out)
		go pass(caller, service, &r.back)
	}
}

func pass(to, from net.Conn, count *atomic.Int64) {
	_, _ = io.Copy(counting{to, count}, from)
	_, _ = to.Close(), from.Close()
}

type counting struct {
	io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c counting) Write(data []byte) (int, error) {
	n, err := c.Writer.Write(data)
	c.n.Add(int64(n))
	return n, err
}

// bytes counts the bytes on the wire per recommendation.
func (b *bench) bytes(ctx context.Context, d time.Duration) (all []Bytes, err error) {
	r, err := startRelay(b.services[true].GRPC)
	if err != nil {
		return nil, err
	}
	defer r.listener.Close()
	c, err := client.Dial(r.listener.Addr().String(), 1)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, l := range []Load{{UnaryRedis, 16, 1}, {StreamRedis, 16, 1}, {BatchRedis, 2, usualBatch}} {
		out, back := r.out.Load(), r.back.Load()
		in, replies, err := b.redisBytes(ctx)
		if err != nil {
			return nil, err
		}
		result := drive(ctx, c, b.sets[true], l, d)
		inNow, repliesNow, err := b.redisBytes(ctx)
		if err = errors.Join(err, result.Err); err != nil {
			return nil, fmt.Errorf("%s: %w", l, err)
		}
		n := float64(result.Done * l.Requests)
		all = append(all, Bytes{
			l.Kind, float64(r.out.Load()-out) / n, float64(r.back.Load()-back) / n, (inNow - in) / n, (repliesNow - replies) / n,
		})
	}
	return all, nil
}

// redisBytes returns the total that Redis has read and written.
func (b *bench) redisBytes(ctx context.Context) (in, out float64, err error) {
	info, err := b.redis.Client.InfoMap(ctx, "stats").Result()
	if err != nil {
		return 0, 0, err
	}
	in, err = strconv.ParseFloat(info["Stats"]["total_net_input_bytes"], 64)
	if err != nil {
		return 0, 0, err
	}
	out, err = strconv.ParseFloat(info["Stats"]["total_net_output_bytes"], 64)
	return in, out, err
}
