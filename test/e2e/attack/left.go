//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// leftAttacks ask for much and leave before it is done.
func leftAttacks() []*attack {
	return []*attack{
		{name: "deadlines", about: "10,000 calls with deadlines of nanoseconds, and of centuries", steps: []step{{name: "grpc", short: true, run: oddDeadlines, bounds: bounds{processor: 15 * time.Second}}}},
		{name: "cancel-storm", about: "20,000 calls that are given up at once", steps: []step{{name: "grpc", short: true, run: cancelStorm, bounds: bounds{processor: 20 * time.Second}}}},
	}
}

func oddDeadlines(ctx context.Context, s *scene) error {
	f, err := hostile.Dial(s.grpc, s.met)
	if err != nil {
		return err
	}
	defer f.Conn.Close()
	data := base().wire
	framed := append([]byte{0, 0, 0, byte(len(data) >> 8), byte(len(data))}, data...)
	for i := range 10_000 {
		timeout := []string{"1n", "99999999H", "0n", "1u", "99999999S", "-1S", "1", "xyz", "999999999999H"}[i%9]
		stream, err := f.Begin(recommendMethod, "grpc-timeout", timeout)
		if err == nil {
			err = f.Framer.WriteData(stream, true, framed)
		}
		if err != nil || f.Gone() {
			if f, err = hostile.Dial(s.grpc, s.met); err != nil {
				return err
			}
			defer f.Conn.Close()
			continue
		}
		s.sent(1, len(framed))
		if i%100 == 99 {
			time.Sleep(10 * time.Millisecond) // no flood of frames: others see to these
		}
	}
	time.Sleep(500 * time.Millisecond)
	return nil
}

func cancelStorm(ctx context.Context, s *scene) error {
	conns := make([]*grpc.ClientConn, 4)
	for i := range conns {
		var err error
		if conns[i], err = s.dial(); err != nil {
			return err
		}
		defer conns[i].Close()
	}
	data := explained(200, 10).wire
	var calls sync.WaitGroup
	places := make(chan struct{}, 200)
	for i := range 20_000 {
		if ctx.Err() != nil {
			break
		}
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(4000))*time.Microsecond)
			defer cancel()
			err := conns[i%len(conns)].Invoke(short, recommendMethod, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
			s.sent(1, len(data))
			s.met.Add(fmt.Sprint("given up: ", codeOf(err)))
		})
	}
	calls.Wait()
	return nil
}
