package guard_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// process is one that serves.
type process struct {
	t       *testing.T
	conn    *grpc.ClientConn
	input   io.WriteCloser
	answers *bufio.Reader
	// idle is what a second costs in which nothing is asked, such as checks of the store; nil: not
	// measured yet.
	idle *counts
}

// start starts a process, which ends with the test.
func start(t *testing.T, storeURL string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// One processor, so that there is one of each of the runtime's caches and pools.
	cmd.Env = append(os.Environ(), serveKey+"="+storeURL, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	p := &process{t: t}
	output, err := cmd.StdoutPipe()
	fatal.If(t, err)
	p.input, err = cmd.StdinPipe()
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	p.answers = bufio.NewReader(output)
	address := p.line()
	p.conn, err = grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec)))
	fatal.If(t, err)
	t.Cleanup(func() {
		_ = p.conn.Close()
		_ = p.input.Close()
		_ = cmd.Wait()
	})
	return p
}

// idleSeconds is for how long a process is watched that is asked nothing.
const idleSeconds = 3

func (p *process) line() string {
	p.t.Helper()
	line, err := p.answers.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the process that serves is gone: %v", err)
	}
	return strings.TrimSpace(line)
}

// counts reads the counters.
func (p *process) counts() (c counts) {
	p.t.Helper()
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		p.t.Fatal(err)
	}
	fatal.If(p.t, json.Unmarshal([]byte(p.line()), &c))
	return c
}

// during returns what is counted while something is done.
func (p *process) during(do func()) counts {
	p.t.Helper()
	_ = p.counts()
	before := p.counts()
	empty := p.counts() // the cost of reading
	do()
	return p.counts().less(empty).less(empty.less(before))
}

// rounds is the number of repetitions: the smallest count is the least disturbed.
const rounds = 4

// measure returns the cost of an operation, of n in a row. It does not count the first ones,
// which fill histories and grow buffers.
func (p *process) measure(n int, operation func()) cost {
	p.t.Helper()
	for range n {
		operation()
	}
	if p.idle == nil {
		idle := p.during(func() { time.Sleep(idleSeconds * time.Second) }).times(1. / idleSeconds)
		p.idle = &idle
	}
	var least cost
	for i := range rounds {
		began := time.Now()
		took := p.during(func() {
			for range n {
				operation()
			}
		})
		took = took.less(p.idle.times(time.Since(began).Seconds()))
		each := func(count float64) float64 { return max(0, count) / float64(n) }
		c := cost{
			allocs: each(took.Allocs), bytes: each(took.Bytes), reads: each(took.Reads), writes: each(took.Writes),
			commands: each(took.Commands),
		}
		if i == 0 {
			least = c
		}
		least = cost{
			allocs: min(least.allocs, c.allocs), bytes: min(least.bytes, c.bytes), reads: min(least.reads, c.reads),
			writes: min(least.writes, c.writes), commands: min(least.commands, c.commands),
		}
	}
	return least
}
