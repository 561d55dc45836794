package nodes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/signed"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

const secret = "0123456789abcdef0123456789abcdef"

func secrets(texts ...string) func() ([][]byte, error) {
	var out [][]byte
	for _, text := range texts {
		out = append(out, []byte(text))
	}
	return func() ([][]byte, error) { return out, nil }
}

// now is an instant of tests, as precise as JSON has it.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func report(at time.Time, tasks ...TaskUsage) *Report {
	return &Report{Node: "node1", At: at, Tasks: append([]TaskUsage{}, tasks...)}
}

func used(task string, at time.Time) TaskUsage {
	return TaskUsage{Task: task, At: at, Window: 15, CPU: 250_000_000, Memory: 1 << 20}
}

// A task counts as its own node says, for as long as that is fresh; whatever a node's clock
// shows, its usage is as old as it says.
func TestATaskCountsAsItsOwnNodeSays(t *testing.T) {
	t.Parallel()
	s := NewStore(45 * time.Second)
	skewed := now.Add(-3 * time.Hour)
	fatal.If(t, s.Take(report(skewed, used("a", skewed.Add(-2*time.Second)), used("old", skewed.Add(-time.Minute)), used("future", skewed.Add(time.Hour))), now, true))
	got, problem := s.Usage(now.Add(time.Second), []Task{{"a", "node1"}, {"old", "node1"}, {"future", "node1"}, {"missing", "node1"}, {"b", "node2"}})
	if problem != "" || len(got) != 2 || got[0].Task != "a" || !got[0].At.Equal(now.Add(-2*time.Second)) || got[1].Task != "future" || !got[1].At.Equal(now) {
		t.Errorf("%v, %q", got, problem)
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		tasks []Task
		want  string
	}{
		{"another's task", 0, []Task{{"a", "node2"}}, "1 of their nodes did not report within 45s (node2)"},
		{"too long ago", 46 * time.Second, []Task{{"a", "node1"}}, "1 of their nodes did not report within 45s"},
		{"no whole window yet", 0, []Task{{"c", "node1"}}, "of the 1 running tasks yet"},
	} {
		if got, problem := s.Usage(now.Add(tt.after), tt.tasks); len(got) > 0 || !strings.Contains(problem, tt.want) {
			t.Errorf("%s: %v, %q, want %q", tt.name, got, problem, tt.want)
		}
	}
	if _, problem := NewStore(0).Usage(now, []Task{{"a", "node1"}}); !strings.Contains(problem, "no node has reported usage") {
		t.Errorf("without reports: %q", problem)
	}
	if n := s.Reporting(now); n != 1 {
		t.Errorf("%d nodes report", n)
	}
	if n := s.Reporting(now.Add(time.Minute)); n != 0 {
		t.Errorf("%d nodes report a minute later", n)
	}
}

func TestNodesAreBounded(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	for i := range maxNodes {
		fatal.If(t, s.Take(&Report{Node: fmt.Sprintf("n%d", i), At: now}, now, true))
	}
	if err := s.Take(report(now), now.Add(time.Minute), true); !errors.Is(err, errTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := s.Take(report(now), now.Add(forgetNode+time.Second), true); err != nil {
		t.Errorf("after those are silent: %v", err)
	}
}

func TestReportsThatCanNotBe(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no JSON":               `{`,
		"no node":               `{"at": "2026-11-22T12:00:00Z"}`,
		"a node that is a path": `{"node": "../x", "at": "2026-11-22T12:00:00Z"}`,
		"no time":               `{"node": "n"}`,
		"less than no cpu":      `{"node": "n", "at": "2026-11-22T12:00:00Z", "tasks": [{"task": "t", "at": "2026-11-22T12:00:00Z", "window": 1, "cpu": -1}]}`,
		"no window":             `{"node": "n", "at": "2026-11-22T12:00:00Z", "tasks": [{"task": "t", "at": "2026-11-22T12:00:00Z", "cpu": 1}]}`,
		"a window of days":      `{"node": "n", "at": "2026-11-22T12:00:00Z", "tasks": [{"task": "t", "at": "2026-11-22T12:00:00Z", "window": 1e9}]}`,
		"a task of none":        `{"node": "n", "at": "2026-11-22T12:00:00Z", "tasks": [{"at": "2026-11-22T12:00:00Z", "window": 1}]}`,
		"too many tasks":        `{"node": "n", "at": "2026-11-22T12:00:00Z", "tasks": [` + strings.Repeat("{},", maxReportTasks) + `{}]}`,
		"too many bytes":        strings.Repeat(" ", MaxReportBytes+1),
	} {
		if r, err := ParseReport([]byte(body)); err == nil || len(err.Error()) > 400 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// send posts a report and returns the status.
func send(t *testing.T, handler http.Handler, r *Report, change func(*http.Request)) (int, string) {
	t.Helper()
	body, err := json.Marshal(r)
	fatal.If(t, err)
	req := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
	sent := r.At.Format(time.RFC3339Nano)
	req.Header.Set(nodeHeader, r.Node)
	req.Header.Set(timeHeader, sent)
	req.Header.Set(digestHeader, signed.Digest(body))
	req.Header.Set(signatureHeader, signature([]byte(secret), r.Node, sent, signed.Digest(body)))
	if change != nil {
		change(req)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// untouched fails the test when a body is read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("read")
}

func (untouched) Close() error { return nil }

// Reports of who is not known, that were sent before, or whose clock is off are refused, and
// their bodies are not read.
func TestOnlySignedAndNewReportsAreTaken(t *testing.T) {
	t.Parallel()
	h, err := NewHandler(NewStore(0), secrets("another-secret-of-before", secret), TLS{}, prometheus.NewRegistry())
	fatal.If(t, err)
	h.now = func() time.Time { return now }
	if code, said := send(t, h, report(now, used("a", now)), nil); code != http.StatusNoContent {
		t.Fatalf("%d %s", code, said)
	}
	for _, tt := range []struct {
		name   string
		report *Report
		change func(*http.Request)
		code   int
		says   string
	}{
		{"again", report(now), nil, 409, "not newer"},
		{"from before", report(now.Add(-time.Second)), nil, 409, "not newer"},
		{"of the past", &Report{Node: "node2", At: now.Add(-MaxSkew - time.Second)}, nil, 403, "differs by -1m1s"},
		{"of the future", &Report{Node: "node2", At: now.Add(MaxSkew + time.Second)}, nil, 403, "by NTP"},
		{"with another secret", report(now.Add(time.Second)), func(r *http.Request) {
			r.Header.Set(signatureHeader, signature([]byte("a guess that is long enough"), "node1", r.Header.Get(timeHeader), r.Header.Get(digestHeader)))
		}, 403, "not signed"},
		{"unsigned", report(now.Add(time.Second)), func(r *http.Request) { r.Header.Del(signatureHeader) }, 403, "not signed"},
		{"signed for another node", report(now.Add(time.Second)), func(r *http.Request) { r.Header.Set(nodeHeader, "node2") }, 403, "not signed"},
		{"of no node", report(now.Add(time.Second)), func(r *http.Request) { r.Header.Set(nodeHeader, "a\nb") }, 400, "must have the id of the node"},
		{"without a length", report(now.Add(time.Second)), func(r *http.Request) { r.ContentLength = -1 }, 413, "Content-Length"},
		{"too long", report(now.Add(time.Second)), func(r *http.Request) { r.ContentLength = MaxReportBytes + 1 }, 413, "at most"},
	} {
		code, said := send(t, h, tt.report, func(r *http.Request) {
			r.Body = untouched{t}
			if tt.change != nil {
				tt.change(r)
			}
		})
		if code != tt.code || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %d %s", tt.name, code, said)
		}
	}
	// The body is what was signed, or nothing is taken.
	if code, said := send(t, h, report(now.Add(time.Second)), func(r *http.Request) {
		r.Body, r.ContentLength = http.NoBody, 0
	}); code != http.StatusForbidden {
		t.Errorf("another body: %d %s", code, said)
	}
	if code, _ := send(t, h, report(now.Add(2*time.Second)), nil); code != http.StatusNoContent {
		t.Errorf("the next one: %d", code)
	}
	if code, _ := send(t, h, report(now.Add(3*time.Second)), func(r *http.Request) { r.Method = http.MethodGet }); code != http.StatusNotFound {
		t.Errorf("by GET: %d", code)
	}
}

func TestSecretsAreReadAndChecked(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "secret")
	for text, ok := range map[string]bool{secret: true, secret + "\n\n" + secret + "\n": true, "": false, "short": false, strings.Repeat(secret+"\n", maxSecrets+1): false} {
		fatal.If(t, os.WriteFile(name, []byte(text), 0o600))
		got, err := ReadSecrets(name)
		if (err == nil) != ok || ok && string(got[0]) != secret {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "short") {
			t.Errorf("the error quotes a secret: %v", err)
		}
	}
}

// authority signs certificates as a swarm's does.
type authority struct {
	*testpki.Authority
	t      *testing.T
	folder string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{testpki.New("ca"), t, t.TempDir()}
	a.trust(a.Authority)
	return a
}

// trust makes an authority the one of the files.
func (a *authority) trust(other *testpki.Authority) {
	a.t.Helper()
	fatal.If(a.t, os.WriteFile(filepath.Join(a.folder, "ca.crt"), other.CertPEM(), 0o600))
}

// files returns the files of a new certificate with that name.
func (a *authority) files(name string) TLS {
	a.t.Helper()
	files := TLS{CAFile: filepath.Join(a.folder, "ca.crt"), CertFile: filepath.Join(a.folder, name+".crt"), KeyFile: filepath.Join(a.folder, name+".key"), ServerName: "swarm-manager"}
	fatal.If(a.t, a.Issue(name, testpki.Names("swarm-manager")).Write(files.CertFile, files.KeyFile))
	return files
}

// With certificates a node reports for itself only, and who has none of the swarm's is not
// let in.
func TestCertificatesSayWhoANodeIs(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	store := NewStore(0)
	agent := ca.files("manager")
	h, err := NewHandler(store, nil, agent, nil)
	fatal.If(t, err)
	server := httptest.NewUnstartedServer(h)
	server.TLS = agent.Server()
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	try := func(files TLS, r *Report) error {
		sender, err := NewSender(server.Listener.Addr().String(), nil, &files, time.Minute)
		fatal.If(t, err)
		defer sender.Close()
		return sender.Send(ctx, r)
	}
	own := ca.files("node1")
	if err := try(own, report(now)); err != nil {
		t.Error(err)
	}
	if err := try(own, &Report{Node: "node2", At: now}); err == nil || !strings.Contains(err.Error(), "its common name must be the id of the reporting node") {
		t.Errorf("of another node: %v", err)
	}
	other := newAuthority(t).files("node1")
	other.CAFile = own.CAFile // it trusts the agent, which does not trust it
	if err := try(other, report(now.Add(time.Second))); err == nil {
		t.Error("a certificate of another authority is taken")
	}
	distrusting := ca.files("node1")
	distrusting.ServerName = "elsewhere"
	if err := try(distrusting, report(now.Add(time.Second))); err == nil {
		t.Error("a server of another name is trusted")
	}
	if n := store.Reporting(time.Now()); n != 1 {
		t.Errorf("%d nodes have reported", n)
	}
}

// A certificate is looked at for as long as its connection lasts: one that has expired, or whose
// authority is no longer one, is refused.
func TestCertificatesThatEndUnderAConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Handler, *authority){
		"expired": func(h *Handler, _ *authority) {
			h.now = func() time.Time { return time.Now().Add(1000 * 24 * time.Hour) }
		},
		"of an authority that is no longer trusted": func(_ *Handler, ca *authority) { ca.trust(testpki.New("ca")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			agent, own := ca.files("manager"), ca.files("node1")
			h, err := NewHandler(NewStore(0), nil, agent, nil)
			fatal.If(t, err)
			server := httptest.NewUnstartedServer(h)
			server.TLS = agent.Server()
			server.StartTLS()
			defer server.Close()
			sender, err := NewSender(server.Listener.Addr().String(), nil, &own, time.Minute)
			fatal.If(t, err)
			defer sender.Close()
			fatal.If(t, sender.Send(t.Context(), report(now)))
			// A node's clock may be set back: the connection identifies the node.
			if err := sender.Send(t.Context(), report(now.Add(-time.Hour))); err != nil {
				t.Errorf("after the clock was set back: %v", err)
			}
			end(h, ca)
			if err := sender.Send(t.Context(), report(now.Add(time.Second))); err == nil || !strings.Contains(err.Error(), "no longer valid") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A connection to an agent that takes it and says nothing ends with its report: each further one would leave another.
func TestAnAgentThatSaysNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer listener.Close()
	own := newAuthority(t).files("node1")
	sender, err := NewSender(listener.Addr().String(), nil, &own, time.Second)
	fatal.If(t, err)
	if err := sender.Send(t.Context(), report(now)); err == nil {
		t.Error("a report is sent")
	}
	conn, err := listener.Accept()
	fatal.If(t, err)
	defer conn.Close()
	fatal.If(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("its connection: %v", err)
	}
}

// Usage that is too old before the next report comes is refused, and the node's log says what to
// change.
func TestWindowsThatAreTooLongAreRefused(t *testing.T) {
	t.Parallel()
	h, err := NewHandler(NewStore(45*time.Second), secrets(secret), TLS{}, nil)
	fatal.If(t, err)
	h.now = func() time.Time { return now }
	long := used("a", now)
	long.Window = 60
	if code, said := send(t, h, report(now, long), nil); code != http.StatusBadRequest || !strings.Contains(said, "a window is 1m0s long, and usage counts for 45s only: lower --interval of node, or raise --usage-max-age") {
		t.Errorf("%d %s", code, said)
	}
}

// How far clocks are apart is known by what was reported.
func TestClocksThatAreApart(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	for sent, want := range map[time.Duration]time.Duration{-time.Hour: time.Hour, 30 * time.Second: -30 * time.Second, -100 * time.Millisecond: 0} {
		fatal.If(t, s.Take(report(now.Add(sent)), now, false))
		if got := s.Skew("node1"); got != want {
			t.Errorf("sent %s after now: got %s, want %s", sent, got, want)
		}
	}
	if got := s.Skew("nobody"); got != 0 {
		t.Errorf("of an unknown node: %s", got)
	}
}

// Of two containers of a task the one that was made last counts; memory that is not accounted is
// none.
func TestTwoContainersOfATask(t *testing.T) {
	t.Parallel()
	labels := map[string]string{taskLabel: "t1", nodeLabel: "node1"}
	e := &engine{node: "node1", containers: map[string]map[string]string{}, made: map[string]int64{}, stats: map[string]string{}}
	for i := range 20 {
		id := fmt.Sprint("c", i)
		e.containers[id], e.made[id] = labels, int64(i)
		e.stats[id] = stats(now, 1_000_000_000, "{}")
	}
	s, passed := newSampler(t, e)
	if _, _, err := s.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	*passed = 10 * time.Second
	for i := range 20 {
		e.stats[fmt.Sprint("c", i)] = stats(now.Add(10*time.Second), 1_000_000_000+uint64(i)*1_000_000_000, "{}")
	}
	r, _, err := s.Sample(t.Context())
	if err != nil || len(r.Tasks) != 1 || r.Tasks[0].CPU != 1_900_000_000 || r.Tasks[0].Memory != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	store := NewStore(0)
	older := used("t1", now)
	for _, tasks := range [][]TaskUsage{{older, used("t1", now.Add(time.Second))}, {used("t1", now.Add(time.Second)), older}} {
		fatal.If(t, store.Take(report(now.Add(time.Second), tasks...), now, false))
		if got, _ := store.Usage(now, []Task{{"t1", "node1"}}); len(got) != 1 || !got[0].At.Equal(now) {
			t.Errorf("got %v", got)
		}
	}
}

// engine is a node's with containers.
type engine struct {
	containers map[string]map[string]string // labels by id
	made       map[string]int64             // by id
	stats      map[string]string            // bodies by id
	node, os   string
	speaks     string // the only version of the API that it takes
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	version, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	speaks := cmp.Or(e.speaks, "1.41")
	switch id, isStats := strings.CutSuffix(strings.TrimPrefix(path, "containers/"), "/stats"); {
	case r.URL.Path == "/_ping":
		w.Header().Set("Api-Version", speaks)
	case version != "v"+speaks:
		http.Error(w, `{"message": "client version is too old"}`, http.StatusBadRequest)
	case path == "info":
		_, _ = fmt.Fprintf(w, `{"OSType": %q, "Swarm": {"NodeID": %q}}`, e.os, e.node)
	case path == "containers/json":
		list := []container.Summary{}
		for id, labels := range e.containers {
			list = append(list, container.Summary{ID: id, Labels: labels, Created: e.made[id]})
		}
		_ = json.NewEncoder(w).Encode(list)
	case isStats && e.stats[id] != "":
		_, _ = w.Write([]byte(e.stats[id]))
	default:
		http.Error(w, `{"message": "gone"}`, http.StatusNotFound)
	}
}

func stats(at time.Time, cpu uint64, memory string) string {
	return fmt.Sprintf(`{"read": %q, "cpu_stats": {"cpu_usage": {"total_usage": %d}}, "memory_stats": %s}`, at.Format(time.RFC3339Nano), cpu, memory)
}

// newSampler returns a sampler whose clock shows what has passed since now.
func newSampler(t *testing.T, e *engine) (s *Sampler, passed *time.Duration) {
	t.Helper()
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	s, err := NewSampler(func() (*client.Client, error) {
		return client.New(client.WithHost("tcp://" + server.Listener.Addr().String()))
	}, SamplerOptions{Interval: 10 * time.Second, Timeout: time.Minute})
	fatal.If(t, err)
	t.Cleanup(s.Close)
	passed = new(time.Duration)
	s.clock = func() time.Time { return now.Add(*passed) }
	return s, passed
}

// After an engine that did not answer, windows begin anew when it answers again: one over all that time is no usage of now, and
// the agent would refuse the report with the advice for an interval that is too long. A sample that is lost has no effect.
func TestAnEngineThatDidNotAnswerForAWhile(t *testing.T) {
	t.Parallel()
	for away, windows := range map[time.Duration][]float64{
		20 * time.Second: {20, 10},
		5 * time.Minute:  {0, 10},
	} {
		e := &engine{node: "node1", containers: map[string]map[string]string{"c1": {taskLabel: "t1", nodeLabel: "node1"}}, stats: map[string]string{}}
		s, passed := newSampler(t, e)
		sample := func(at time.Duration) (*Report, error) {
			*passed = at
			e.stats["c1"] = stats(now.Add(at), uint64(1+at), "{}")
			r, _, err := s.Sample(t.Context())
			return r, err
		}
		if _, err := sample(0); err != nil {
			t.Fatal(err)
		}
		e.speaks = "1.44" // its successor's: refuses what was negotiated
		if _, err := sample(away / 2); err == nil {
			t.Fatal("it was read")
		}
		for i, want := range windows {
			r, err := sample(away + time.Duration(i)*10*time.Second)
			fatal.If(t, err)
			got := 0.0
			if len(r.Tasks) > 0 {
				got = r.Tasks[0].Window
			}
			if got != want {
				t.Errorf("away for %s, sample %d: a window of %g s, want %g", away, i, got, want)
			}
			if err := NewStore(30 * time.Second).checkWindows(r); err != nil {
				t.Errorf("away for %s, sample %d: %v", away, i, err)
			}
		}
	}
}

// A node's engine whose successor takes the old version of the API no more is read again.
func TestAnEngineThatIsReplaced(t *testing.T) {
	t.Parallel()
	e := &engine{node: "node1", speaks: "1.41"}
	s, _ := newSampler(t, e)
	if _, _, err := s.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.speaks = "1.44"
	for range idEvery {
		_, _, _ = s.Sample(t.Context())
	}
	if r, _, err := s.Sample(t.Context()); err != nil || r.Node != "node1" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Where the node's clock was set between two reads, the time between them is not that of their instants: a rate by it would
// be several times too high or too low.
func TestANodesClockThatIsSet(t *testing.T) {
	t.Parallel()
	read := func(passed, took, set time.Duration, cpu uint64) reading {
		return reading{task: "t1", at: now.Add(passed + set), began: now.Add(passed), ended: now.Add(passed + took), cpu: cpu}
	}
	const second = time.Second
	first := read(0, second, 0, 0)
	for _, tt := range []struct {
		set, took time.Duration
		want      bool
	}{{0, second, true}, {second / 2, second, true}, {5 * second, 6 * second, true}, {-10 * second, second, false}, {20 * second, second, false}} {
		if got, ok := usageBetween(first, read(15*second, tt.took, tt.set, 15_000_000_000), time.Minute); ok != tt.want {
			t.Errorf("set by %s in a read of %s: %v, %+v", tt.set, tt.took, ok, got)
		}
	}
}

// Windows counts cpu in units of 100 ns, and has another memory.
func TestAWindowsNode(t *testing.T) {
	t.Parallel()
	e := &engine{node: "node1", os: "windows", containers: map[string]map[string]string{"c1": {taskLabel: "t1", nodeLabel: "node1"}}}
	memory := `{"commitbytes": 9000, "privateworkingset": 5000}`
	e.stats = map[string]string{"c1": stats(now, 10_000_000, memory)}
	s, passed := newSampler(t, e)
	if _, _, err := s.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	*passed = 10 * time.Second
	e.stats["c1"] = stats(now.Add(10*time.Second), 60_000_000, memory) // half a core
	if r, _, err := s.Sample(t.Context()); err != nil || len(r.Tasks) != 1 || r.Tasks[0].CPU != 500_000_000 || r.Tasks[0].Memory != 5000 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A sample is a rate between two readings; a container without two, a recreated one,
// and one that can't be read are missing.
func TestASampleIsARateBetweenTwoReadings(t *testing.T) {
	t.Parallel()
	of := func(task string) map[string]string { return map[string]string{taskLabel: task, nodeLabel: "node1"} }
	e := &engine{node: "node1", containers: map[string]map[string]string{"c1": of("t1"), "c2": of("t2"), "c3": of("t3"), "c4": {nodeLabel: "node1"}}}
	v1, v2 := `{"usage": 3000, "stats": {"total_inactive_file": 1000, "inactive_file": 5}}`, `{"usage": 3000, "stats": {"inactive_file": 500}}`
	e.stats = map[string]string{"c1": stats(now, 1_000_000_000, v1), "c2": stats(now, 7_000_000_000, v2), "c4": stats(now, 1, v2)}
	s, passed := newSampler(t, e)
	first, failed, err := s.Sample(t.Context())
	if err != nil || len(first.Tasks) != 0 || failed != 1 || first.Node != "node1" {
		t.Fatalf("the first: %+v, %d failed, %v", first, failed, err)
	}
	*passed = 10 * time.Second
	later := now.Add(10 * time.Second)
	e.stats["c1"], e.stats["c2"], e.stats["c3"] = stats(later, 3_500_000_000, v1), stats(later, 5, v2), stats(later, 5, v2)
	second, failed, err := s.Sample(t.Context())
	if err != nil || failed != 0 || len(second.Tasks) != 1 {
		t.Fatalf("the second: %+v, %d failed, %v", second, failed, err)
	}
	if got := second.Tasks[0]; got.Task != "t1" || got.CPU != 250_000_000 || got.Window != 10 || got.Memory != 2000 || !got.At.Equal(later) {
		t.Errorf("got %+v", got)
	}
	*passed = 20 * time.Second
	e.stats["c2"], e.stats["c3"] = stats(later.Add(10*time.Second), 5, v2), stats(later, 5, v2)
	third, _, err := s.Sample(t.Context())
	if err != nil || len(third.Tasks) != 1 || third.Tasks[0].Task != "t2" || third.Tasks[0].CPU != 0 || third.Tasks[0].Memory != 2500 {
		t.Errorf("idle, and a reading that is no new one: %+v, %v", third, err)
	}
	e.node = ""
	for range idEvery {
		_, _, err = s.Sample(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "not in a swarm") {
		t.Errorf("after the node has left: %v", err)
	}
}
