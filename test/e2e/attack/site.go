//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// counter counts; it may be used by several goroutines.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64) { c.n.Add(n) }
func (c *counter) load() int64 { return c.n.Load() }
func (c *counter) atLeast(n int64) {
	for {
		was := c.n.Load()
		if was >= n || c.n.CompareAndSwap(was, n) {
			return
		}
	}
}

// site is a service with its requirements, in a folder of its own.
type site struct {
	program           string
	folder            string
	flags             []string
	grpc, rest, admin string
	redis             string // "": none
	ports             *process.Ports
	service           *process.Process
	redisServer       *process.Process
	log               string
	// honestToken and authority are the honest caller's credentials and trust.
	honestToken string
	authority   string // a file; "": no TLS
	client      *http.Client
	ends        []func()
}

// newSite prepares and starts an attack's service.
func newSite(program string, a *attack) (s *site, err error) {
	folder, err := os.MkdirTemp("", "setpoint-attack-")
	if err != nil {
		return nil, err
	}
	s = &site{program: program, folder: folder, log: filepath.Join(folder, "setpoint.log"), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}
	defer func() {
		if err != nil {
			_ = s.end()
		}
	}()
	if s.ports, err = process.Reserve(4); err != nil {
		return nil, err
	}
	s.grpc, s.rest, s.admin = s.ports.Address(0), s.ports.Address(1), s.ports.Address(2)
	if a.redis {
		if err := s.startRedis(); err != nil {
			return nil, err
		}
	}
	if a.prepare != nil {
		if err := a.prepare(s); err != nil {
			return nil, err
		}
	}
	return s, s.start()
}

func (s *site) startRedis() error {
	var err error
	s.redisServer, err = process.Start(process.Command{
		Name: "redis-server", Program: "redis-server", Log: filepath.Join(s.folder, "redis.log"),
		Args: []string{"--port", s.ports.Number(3), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.folder},
	})
	s.redis = s.ports.Address(3)
	s.flags = append(s.flags, "--redis=redis://"+s.redis)
	return err
}

func (s *site) start() error {
	var err error
	s.service, err = process.Start(process.Command{
		Name: "setpoint", Program: s.program, Log: s.log, Env: []string{"GOMEMLIMIT=512MiB"},
		Args: append([]string{"serve", "--grpc-address=" + s.grpc, "--rest-address=" + s.rest, "--admin-address=" + s.admin}, s.flags...),
	})
	if err != nil {
		return err
	}
	return s.service.Await("ready", process.Patience, func() error { return process.OK(s.client, "http://"+s.admin+"/readyz") })
}

// ask queries the admin address.
func (s *site) ask(path string) (string, error) {
	response, err := s.client.Get("http://" + s.admin + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(text), err
}

// end stops everything, and returns the problems of the service's end, or of its log.
func (s *site) end() error {
	var problems []error
	if s.service != nil {
		problems = append(problems, s.service.Stop())
		problems = append(problems, s.logged())
	}
	for i := len(s.ends) - 1; i >= 0; i-- {
		s.ends[i]()
	}
	if s.redisServer != nil {
		s.redisServer.Kill()
	}
	if s.ports != nil {
		s.ports.Release()
	}
	problems = append(problems, os.RemoveAll(s.folder))
	return errors.Join(problems...)
}

// logged looks for signs of a panic, for characters that a terminal does not show, and for lines of an unreasonable
// length.
func (s *site) logged() error {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err
	}
	if crash := process.Crash(text); crash != "" {
		return fmt.Errorf("the service logged: %.500s", crash)
	}
	if i := bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("the log has a character that is not shown, at byte %d: %.200q", i, text[max(0, i-100):])
	}
	longest := 0
	for line := range strings.Lines(string(text)) {
		longest = max(longest, len(line))
	}
	if longest > mostLine {
		return fmt.Errorf("a line of the log has %d bytes, want at most %d", longest, mostLine)
	}
	return nil
}

// mostLine is the longest that a line of the log may be, bytes.
const mostLine = 16 << 10

// write writes a file of the service, at once.
func (s *site) write(name string, content []byte) (path string, err error) {
	path = filepath.Join(s.folder, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

// proc is a file of the kernel's about the service.
func (s *site) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", s.service.PID(), name) }

// resident is how much memory is resident, bytes; peak the most since resetPeak; 0 where the
// service is gone.
func (s *site) resident() int64 {
	bytes, _ := process.Resident(s.service.PID())
	return bytes
}

func (s *site) peak() int64 {
	bytes, _ := process.PeakResident(s.service.PID())
	return bytes
}

// resetPeak resets peak.
func (s *site) resetPeak() error { return os.WriteFile(s.proc("clear_refs"), []byte("5"), 0) }

// processor is the processor time it has had so far. The kernel's clock of a process says
// it to the nanosecond, where /proc/PID/stat counts hundredths of a second.
func (s *site) processor() time.Duration {
	const ofProcess = 2 // CPUCLOCK_SCHED: the scheduler's accounting
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^s.service.PID())<<3|ofProcess, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// files is how many files it has open.
func (s *site) files() int {
	entries, err := os.ReadDir(s.proc("fd"))
	if err != nil {
		return 0
	}
	return len(entries)
}

// goroutines is how many it has.
func (s *site) goroutines() (int, error) {
	text, err := s.ask("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	var n int
	_, err = fmt.Sscanf(text, "goroutine profile: total %d", &n)
	return n, err
}

// heap is the live heap after a collection, bytes, and its profile as text.
func (s *site) heap() (bytes int64, profile string, err error) {
	if profile, err = s.ask("/debug/pprof/heap?debug=1&gc=1"); err != nil {
		return 0, "", err
	}
	bytes, err = heapAlloc(profile)
	return bytes, profile, err
}

// heapAlloc returns how many bytes of the heap are in use, which stands at the end of a heap
// profile in text form.
func heapAlloc(profile string) (int64, error) {
	_, rest, _ := strings.Cut(profile, "# HeapAlloc = ")
	return strconv.ParseInt(strings.Fields(rest + " ?")[0], 10, 64)
}
