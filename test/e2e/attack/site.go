//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
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
	page        time.Duration // of a processor, for a page that is touched first
	ends        []func()
}

// newSite prepares and starts an attack's service.
func newSite(program string, a *attack) (s *site, err error) {
	folder, err := os.MkdirTemp("", "setpoint-attack-")
	if err != nil {
		return nil, err
	}
	s = &site{program: program, folder: folder, log: filepath.Join(folder, "setpoint.log"), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}, page: costOfPage()}
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

// processor is the processor time it has had so far, without what the machine took to hand it
// pages. The kernel's clock of a process says it to the nanosecond, where /proc/PID/stat counts
// hundredths of a second. A page that is touched first takes a fraction of a microsecond of a
// processor on bare metal, and 14 µs on some virtual machines: there it was half of all that a
// request of 20,000 pods takes, and nothing that the service could do. How many pages it may
// take is what memory bounds.
func (s *site) processor() time.Duration {
	const ofProcess = 2 // CPUCLOCK_SCHED: the scheduler's accounting
	t := clock(int32(^s.service.PID())<<3 | ofProcess)
	if t == 0 {
		return 0
	}
	return t - time.Duration(s.faults())*s.page
}

// clock reads a clock of processor time; 0: there is none.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// faults is how many pages the kernel has handed it, without those it read from a disk.
func (s *site) faults() int64 {
	text, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return 0
	}
	// The name of the program, which may hold spaces, stands in parentheses before the rest.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const minflt = 10 - 3 // the tenth field; the third is the first one here
	if len(fields) <= minflt {
		return 0
	}
	n, _ := strconv.ParseInt(fields[minflt], 10, 64) // 0: what it took is counted
	return n
}

// costOfPage measures the processor time that the machine takes for a page that is touched first.
func costOfPage() time.Duration {
	const size, rounds = 16 << 20, 3
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := time.Duration(math.MaxInt64)
	for range rounds {
		memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return 0
		}
		began := clock(unix.CLOCK_THREAD_CPUTIME_ID)
		for at := 0; at < size; at += os.Getpagesize() {
			memory[at] = 1
		}
		least = min(least, clock(unix.CLOCK_THREAD_CPUTIME_ID)-began)
		_ = unix.Munmap(memory)
	}
	return least / time.Duration(size/os.Getpagesize())
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
