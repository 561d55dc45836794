//go:build linux

package edge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/edge/load"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// callers are a load that runs in a process of its own.
type callers struct {
	t     testing.TB
	pid   int
	stdin io.Closer
	ended chan struct{} // all has been read

	mu      sync.Mutex
	buckets []load.Bucket // guarded by mu
}

// startCallers starts a load; cpu pins it to one processor, unless it is negative.
func startCallers(t testing.TB, cpu int, config load.Config) *callers {
	t.Helper()
	path, err := generatorProgram()
	fatal.If(t, err)
	text, err := json.Marshal(config)
	fatal.If(t, err)
	args, environment := []string{path}, os.Environ()
	if cpu >= 0 {
		args = append([]string{"taskset", "-c", strconv.Itoa(cpu)}, args...)
		environment = append(environment, "GOMAXPROCS=1")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(environment, "GOGC=400")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	fatal.If(t, err)
	stdout, err := cmd.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	_, err = stdin.Write(append(text, '\n'))
	fatal.If(t, err)
	c := &callers{t: t, pid: cmd.Process.Pid, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		decoder := json.NewDecoder(stdout)
		for {
			var b load.Bucket
			if decoder.Decode(&b) != nil {
				break
			}
			c.mu.Lock()
			c.buckets = append(c.buckets, b)
			c.mu.Unlock()
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the load's process: %v\n%s", err, stderr.String())
		}
	}()
	t.Cleanup(c.stop)
	return c
}

// stop ends a phase without an end, and waits for the process.
func (c *callers) stop() {
	_ = c.stdin.Close()
	<-c.ended
}

// outcome is the results of calls.
type outcome struct {
	from, to time.Time
	seconds  float64
	codes    map[string]int
	micros   []int32 // of those that succeeded, ascending
}

// rate returns how many calls a second succeeded.
func (o *outcome) rate() float64 { return float64(o.codes[codes.OK.String()]) / max(o.seconds, .001) }

// quantile returns the time that this share of the calls that succeeded took at most.
func (o *outcome) quantile(q float64) time.Duration {
	if len(o.micros) == 0 {
		return 0
	}
	return time.Duration(o.micros[min(len(o.micros)-1, int(q*float64(len(o.micros))))]) * time.Microsecond
}

// unsuccessful lists the other codes, except for the given ones; empty for none.
func (o *outcome) unsuccessful(but ...codes.Code) string {
	var other []string
	for _, code := range slices.Sorted(maps.Keys(o.codes)) {
		if code != codes.OK.String() && !slices.ContainsFunc(but, func(c codes.Code) bool { return c.String() == code }) {
			other = append(other, fmt.Sprintf("%d %s", o.codes[code], code))
		}
	}
	return strings.Join(other, ", ")
}

// outcome sums up the buckets that are wanted.
func (c *callers) outcome(wanted func(*load.Bucket) bool) *outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &outcome{codes: make(map[string]int)}
	for i := range c.buckets {
		b := &c.buckets[i]
		if !wanted(b) {
			continue
		}
		if o.from.IsZero() {
			o.from = time.Unix(0, b.Ended).Add(-load.BucketLength)
		}
		o.to = time.Unix(0, b.Ended)
		o.seconds += load.BucketLength.Seconds()
		for code, n := range b.Codes {
			o.codes[code] += n
		}
		o.micros = append(o.micros, b.Micros...)
	}
	slices.Sort(o.micros)
	return o
}

// between sums up the calls that ended then.
func (c *callers) between(from, to time.Time) *outcome {
	return c.outcome(func(b *load.Bucket) bool { return b.Ended > from.UnixNano() && b.Ended <= to.UnixNano() })
}

// phase sums up a phase, without its first tenth and its last bucket, in which it is
// settling and ending.
func (c *callers) phase(name string) *outcome {
	first, last := int64(0), int64(0)
	c.outcome(func(b *load.Bucket) bool {
		if b.Phase == name {
			first = cmp.Or(first, b.Ended)
			last = b.Ended
		}
		return false
	})
	return c.outcome(func(b *load.Bucket) bool {
		return b.Phase == name && b.Ended > first+(last-first)/10 && b.Ended < last
	})
}

func encode(t testing.TB, requests ...*setpointv1.RecommendRequest) [][]byte {
	t.Helper()
	var all [][]byte
	for _, request := range requests {
		data, err := proto.Marshal(request)
		fatal.If(t, err)
		all = append(all, data)
	}
	return all
}

// table prints lines with columns that stand below each other.
type table [][]string

func (rows table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	return b.String()
}

// needsTwoProcessors skips where the service and its callers can't have one each.
func needsTwoProcessors(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("taskset"); err != nil || runtime.NumCPU() < 2 {
		kit.Cannot(t, fmt.Sprintf("it takes two processors (there are %d) and taskset (%v)", runtime.NumCPU(), err))
	}
}
