package guard_test

import (
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// cost is the cost of one operation.
type cost struct {
	// allocs and bytes are its allocations.
	allocs, bytes float64
	// reads and writes are the system calls of the service's process, on all its sockets.
	reads, writes float64
	// commands are the commands to Redis, and redisBytes their size on the wire.
	commands, redisBytes float64
}

// bounds are what operations may cost at most; 0: not bounded. Those of calls have
// in them what gRPC itself takes.
//
// To change them: `make guard` prints what was counted. Bounds are some 15 % above that,
// and half an object at least, for what happens seldom: a buffer that grows, a timer. If
// an operation has become cheaper lower its bound with the change that made it so. If it
// must cost more raise it, and say in the commit why that is worth it.
var bounds = map[string]cost{
	// The steps by themselves.
	"decode, 10 pods":         {allocs: 2.5, bytes: 450},
	"decode, 1000 pods":       {allocs: 2.5, bytes: 32_000},
	"decode, 10000 pods":      {allocs: 2.5, bytes: 310_000},
	"decode anew, 10 pods":    {allocs: 41, bytes: 15_000},
	"decode anew, 1000 pods":  {allocs: 55, bytes: 445_000},
	"decode anew, 10000 pods": {allocs: 55, bytes: 3_900_000},
	"decide, 10 pods":         {allocs: 2.5, bytes: 1050},
	"decide, 1000 pods":       {allocs: 2.5, bytes: 1050},
	"decide, 10000 pods":      {allocs: 2.5, bytes: 1050},
	// Three stages that change nothing: one decision, and what they need for it.
	"decide with stages, 10 pods": {allocs: 5.8, bytes: 1250},
	"encode answer":               {allocs: 1.5, bytes: 12},
	"encode history":              {allocs: .5},
	"decode history":              {allocs: 2.5, bytes: 1350},
	"an hour of seconds":          {allocs: 5.5, bytes: 410},
	"swap":                        {allocs: 15, bytes: 1000},
	"swap in a batch":             {allocs: .8, bytes: 1050},

	// Recommendations over gRPC, those on Redis by one command each.
	"unary, 10 pods":     {allocs: 92, bytes: 6600, reads: 3, writes: 2},
	"unary, 100 pods":    {allocs: 92, bytes: 9350, reads: 3, writes: 2},
	"unary, each pod":    {allocs: .05, bytes: 40},
	"unary, 10,000 pods": {allocs: 120, bytes: 320_000},
	"stream, 10 pods":    {allocs: 28, bytes: 1900, reads: 3, writes: 2},
	"batch, 10 pods":     {allocs: 8.7, bytes: 2150, reads: .3, writes: .15},
	"unary, Redis":       {allocs: 112, bytes: 7950, reads: 8, writes: 5, commands: 1.05, redisBytes: 445},
	"stream, Redis":      {allocs: 48, bytes: 3200, reads: 8, writes: 5, commands: 1.05},
	"batch, Redis":       {allocs: 6.1, bytes: 2800, reads: .4, writes: .25, commands: 1.05},
}

// check prints a cost and compares it with its bound.
func check(t *testing.T, name string, got cost) {
	t.Helper()
	bound, ok := bounds[name]
	if !ok {
		t.Errorf("%s: no bound", name)
	}
	t.Logf("%-24s %8.1f objects %10.0f bytes %5.2f reads %5.2f writes %5.2f commands %6.0f bytes to Redis",
		name, got.allocs, got.bytes, got.reads, got.writes, got.commands, got.redisBytes)
	for _, c := range []struct {
		what       string
		got, bound float64
	}{
		{"objects", got.allocs, bound.allocs}, {"bytes", got.bytes, bound.bytes},
		{"reads", got.reads, bound.reads}, {"writes", got.writes, bound.writes},
		{"commands", got.commands, bound.commands}, {"bytes to Redis", got.redisBytes, bound.redisBytes},
	} {
		if c.bound > 0 && c.got > c.bound {
			t.Errorf("%s: %.2f %s, bound %.2f", name, c.got, c.what, c.bound)
		}
		if c.bound >= 1 && c.got < c.bound/3 && runtime.GOOS == "linux" { // system calls are counted only there
			t.Errorf("%s: only %.2f %s: lower the bound, %.2f, or mend what counts them", name, c.got, c.what, c.bound)
		}
	}
}

// counted skips a test where allocations are not only the program's.
func counted(t *testing.T) {
	t.Helper()
	if testlength.RaceDetector {
		t.Skip("the race detector allocates, too: make guard counts without it")
	}
}
