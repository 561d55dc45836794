package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// counts are the process' counters. Those of system calls and of Redis are 0 if not available.
type counts struct {
	Allocs, Bytes, Reads, Writes, Commands float64
}

// less returns what came after other.
func (c counts) less(other counts) counts { return c.plus(other.times(-1)) }

func (c counts) plus(other counts) counts {
	return counts{
		c.Allocs + other.Allocs, c.Bytes + other.Bytes, c.Reads + other.Reads, c.Writes + other.Writes,
		c.Commands + other.Commands,
	}
}

func (c counts) times(factor float64) counts {
	return counts{c.Allocs * factor, c.Bytes * factor, c.Reads * factor, c.Writes * factor, c.Commands * factor}
}

// serve serves until the standard input ends, as it does with the test's process. It first
// prints its address, and its counters for each line that it reads.
func serve(storeURL string) error {
	// A collection empties pools, at times that depend on the machine.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(2 << 30)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var engine *redis.Store
	if storeURL != inMemory {
		if engine, err = openRedis(storeURL); err != nil {
			return err
		}
	}
	if err := serveSetpoint(listener, engine); err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := answers.Encode(count(engine)); err != nil {
			return err
		}
	}
	return nil
}

func openRedis(url string) (*redis.Store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.New(options)
}

// serveSetpoint serves with the defaults of a user, as far as they are the same each time.
func serveSetpoint(listener net.Listener, engine *redis.Store) error {
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	options.Registerer = prometheus.NewRegistry()
	options.LoggedRepeats = 0          // else some are logged, depending on the time
	options.Limits.Shedding.Off = true // the machine may be busy
	histories := memory.New(memory.Options{})
	var log store.Log = histories
	var records store.Engine = histories
	if engine != nil {
		records, log = engine, engine
		options.CacheBytes = 32 << 20
	}
	srv, err := server.New(records, log, options)
	if err != nil {
		return err
	}
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = srv.Serve(context.Background(), listener, rest) }()
	return nil
}

func count(engine *redis.Store) (c counts) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Allocs, c.Bytes = float64(m.Mallocs), float64(m.TotalAlloc)
	if engine != nil {
		c.Commands = float64(engine.Stats().Commands)
	}
	c.Reads, c.Writes, _ = systemCalls()
	return c
}

// systemCalls returns how often the process has read and written.
func systemCalls() (reads, writes float64, err error) {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, 0, err
	}
	var characters [2]float64
	if n, _ := fmt.Sscanf(string(data), "rchar: %g\nwchar: %g\nsyscr: %g\nsyscw: %g", &characters[0], &characters[1], &reads, &writes); n != 4 {
		return 0, 0, errors.New("/proc/self/io is in another format")
	}
	return reads, writes, nil
}
