package nomadtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
)

// player replays a recording against a server, each request at its time. Indexes differ, as the
// server has no nodes, so the player maps recorded indexes to the server's by their answers.
type player struct {
	t      *testing.T
	server *nomadtest.Server

	// bodiesDiffer reports that the theme lacks the history of the state it reads.
	bodiesDiffer bool

	// accessors maps the recorded accessors of tokens to the server's.
	accessors map[string]string

	mu      sync.Mutex
	indexes map[uint64]uint64 // recorded to actual; guarded by mu
	played  int
	left    map[string]int // calls that the server lacks, by method and path
}

// unknown reports whether the server lacks the call, or its answer depends on a scheduler or
// clients.
func unknown(e *nomadtest.Exchange) bool {
	path := e.Request.Path
	switch {
	case path == "/v1/status/leader", path == "/v1/agent/health":
		return false
	case path == "/v1/jobs":
		return e.Request.Method == http.MethodGet || strings.Contains(e.Response.BodyText, "validation failed") // it accepts any bounds
	case strings.HasPrefix(path, "/v1/scaling"), strings.HasPrefix(path, "/v1/nonsense"), strings.HasPrefix(path, "/v2/"):
		return false
	case strings.HasPrefix(path, "/v1//"), strings.HasPrefix(path, "/v1/job//"):
		return false
	case strings.HasPrefix(path, "/v1/job/"):
		return strings.Contains(path, "/deployment") || strings.Contains(path, "/allocations")
	}
	return true
}

// neverMade reports calls of the theme with tokens that no agent makes.
func neverMade(e *nomadtest.Exchange) bool {
	path := e.Request.Path
	return path == "/v1/event/stream" || path == "/v1/agent/self" || path == "/v1/jobs" && e.Request.Method == http.MethodGet ||
		strings.HasPrefix(path, "/v1/node") || strings.HasPrefix(path, "/v1/allocation/") || strings.HasPrefix(path, "/v1/job/") && strings.Contains(path, "/deployment")
}

// withTokens are the themes with tokens; in the others the server has none.
var withTokens = map[string]bool{"acl": true}

func play(t *testing.T, theme, end string, wantPlayed int, before func(*nomadtest.Server, *nomadtest.Exchange)) {
	synctest.Test(t, func(t *testing.T) {
		recorded := nomadtest.Recorded(t, theme)
		p := &player{t: t, bodiesDiffer: theme == "longpoll", accessors: map[string]string{}, indexes: map[uint64]uint64{}, left: map[string]int{}}
		p.server = &nomadtest.Server{DeploymentTime: 2300 * time.Millisecond, NewPolicyID: policyIDs(recorded)}
		if withTokens[theme] {
			p.server.UseACL()
			p.server.Placement = &nomadtest.Placement{StartTime: 300 * time.Millisecond, NewID: allocationIDs()}
		}
		began := time.Now()
		var wg sync.WaitGroup
		for _, e := range recorded {
			if e.ID == end {
				break
			}
			time.Sleep(e.At() - time.Since(began))
			synctest.Wait()
			if before != nil {
				before(p.server, e)
			}
			if e.Request.Method == "" {
				continue
			}
			if withTokens[theme] && neverMade(e) || !withTokens[theme] && unknown(e) {
				p.left[e.Request.Method+" "+e.Request.Path]++
				continue
			}
			p.played++
			wg.Go(func() { p.exchange(e) })
			synctest.Wait()
		}
		wg.Wait()
		for _, call := range slices.Sorted(maps.Keys(p.left)) {
			t.Logf("not played, as the server has no such call: %s, %d times", call, p.left[call])
		}
		if p.played != wantPlayed {
			t.Errorf("%d exchanges of %d were played, want %d", p.played, len(recorded), wantPlayed)
		}
	})
}

// allocationIDs gives the first allocation of each job the id that the theme acl uses.
func allocationIDs() func(job, id string) string {
	ids := map[string]string{"web": "38d5134b-8f41-b64e-8ee0-a6b35ab7ebc6", "elsewhere": "078949e0-0868-70c1-d9c1-fd5565b986b8"}
	return func(job, id string) string {
		if recorded, ok := ids[job]; ok {
			delete(ids, job)
			return recorded
		}
		return id
	}
}

// policyIDs gives policies the recorded ids, in the order of their first appearance.
func policyIDs(recorded []*nomadtest.Exchange) func(map[string]string) string {
	ids := map[string][]string{}
	add := func(id string, target map[string]string) {
		key := target["Namespace"] + "/" + target["Job"] + "/" + target["Group"]
		if id != "" && !slices.Contains(ids[key], id) {
			ids[key] = append(ids[key], id)
		}
	}
	for _, e := range recorded {
		type policy struct {
			ID     string
			Target map[string]string
		}
		var all []policy
		if json.Unmarshal(e.Response.Body, &all) != nil {
			continue
		}
		for _, p := range all {
			add(p.ID, p.Target)
		}
	}
	made := 0
	return func(target map[string]string) string {
		key := target["Namespace"] + "/" + target["Job"] + "/" + target["Group"]
		if len(ids[key]) > 0 {
			id := ids[key][0]
			ids[key] = ids[key][1:]
			return id
		}
		made++
		return fmt.Sprintf("ffffffff-0000-0000-0000-%012d", made)
	}
}

// here maps a recorded index to the server's. An index without an answer lies in the future, or
// just before the next known one.
func (p *player) here(recorded uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index, ok := p.indexes[recorded]; ok {
		return index
	}
	next := uint64(math.MaxUint64)
	for r := range p.indexes {
		if r > recorded {
			next = min(next, r)
		}
	}
	if next == math.MaxUint64 {
		return recorded + 1_000_000
	}
	return p.indexes[next] - 1
}

func (p *player) learn(recorded, here uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if recorded != 0 {
		p.indexes[recorded] = here
	}
}

func (p *player) exchange(e *nomadtest.Exchange) {
	query := url.Values{}
	for name, value := range e.Request.Query {
		text := fmt.Sprint(value)
		if n, err := strconv.ParseUint(text, 10, 64); name == "index" && err == nil && n > 0 {
			text = strconv.FormatUint(p.here(n), 10)
		}
		query.Set(name, text)
	}
	began := time.Now()
	w := httptest.NewRecorder()
	w.Code = 0
	path := e.Request.Path
	p.mu.Lock()
	for recorded, here := range p.accessors {
		path = strings.ReplaceAll(path, recorded, here)
	}
	p.mu.Unlock()
	r := httptest.NewRequest(e.Request.Method, "http://nomad"+path+"?"+query.Encode(), p.body(e))
	for name, value := range e.Request.Headers {
		r.Header.Set(name, value)
	}
	p.answer(w, r)
	took := time.Since(began)
	p.compare(e, w, took)
}

// answer calls the server; the code stays 0 if it closes the connection.
func (p *player) answer(w *httptest.ResponseRecorder, r *http.Request) {
	defer func() {
		if err := recover(); err != nil && err != http.ErrAbortHandler {
			panic(err)
		}
	}()
	p.server.ServeHTTP(w, r)
}

// body is the recorded body with the server's indexes.
func (p *player) body(e *nomadtest.Exchange) *bytes.Reader {
	if strings.Contains(e.Note, "a large body") {
		return bytes.NewReader([]byte(`{"Target": {"Group": "web"}, "Message": "` + strings.Repeat("x", 1_200_000) + `"}`))
	}
	if e.Request.BodyText != nil {
		return bytes.NewReader([]byte(*e.Request.BodyText))
	}
	body := e.Request.Body
	var compared struct{ JobModifyIndex *uint64 }
	if json.Unmarshal(body, &compared) == nil && compared.JobModifyIndex != nil && *compared.JobModifyIndex > 0 {
		was := strconv.FormatUint(*compared.JobModifyIndex, 10)
		body = bytes.ReplaceAll(body, []byte(was), []byte(strconv.FormatUint(p.here(*compared.JobModifyIndex), 10)))
	}
	if string(body) == "null" && strings.Contains(e.Note, "no body") {
		body = nil
	}
	return bytes.NewReader(body)
}

// withoutIndexes removes the indexes from the text of a conflict.
func withoutIndexes(text string) string {
	if !strings.HasPrefix(text, "Enforcing job modify index") {
		return strings.TrimSpace(text)
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, strings.TrimSpace(text))
}

func (p *player) compare(e *nomadtest.Exchange, w *httptest.ResponseRecorder, took time.Duration) {
	t, want := p.t, e.Response
	if w.Code != want.Status {
		t.Errorf("%s (%s): got %d %s, want %d %s", e.ID, e.Note, w.Code, strings.TrimSpace(w.Body.String()), want.Status, want.BodyText)
		return
	}
	if want.Status >= 300 {
		if len(want.Body) > 0 && want.BodyText == "" {
			want.BodyText = canonical(want.Body)
			w.Body = bytes.NewBufferString(canonical(w.Body.Bytes()))
		}
		if got, want := withoutIndexes(w.Body.String()), withoutIndexes(want.BodyText); got != want && e.Request.Method != http.MethodHead {
			t.Errorf("%s (%s): got %q, want %q", e.ID, e.Note, got, want)
		}
	}
	// A waiting query returns when the recorded one did: at a change, or after its wait and up
	// to a sixteenth of it.
	if recorded := time.Duration(want.DurationMS * float64(time.Millisecond)); took > recorded+recorded/15+100*time.Millisecond || recorded > took+recorded/15+100*time.Millisecond {
		t.Errorf("%s (%s): took %s, want %s", e.ID, e.Note, took, recorded)
	}
	if known := want.Headers["X-Nomad-KnownLeader"]; known != "" && known != w.Header().Get("X-Nomad-Knownleader") {
		t.Errorf("%s (%s): a leader is known: %q, want %q", e.ID, e.Note, w.Header().Get("X-Nomad-Knownleader"), known)
	}
	recorded, _ := strconv.ParseUint(want.Headers["X-Nomad-Index"], 10, 64)
	here, _ := strconv.ParseUint(w.Header().Get("X-Nomad-Index"), 10, 64)
	if (recorded == 0) != (here == 0) {
		t.Errorf("%s (%s): index %d, want one as %d", e.ID, e.Note, here, recorded)
	}
	p.learn(recorded, here)
	if want.Status != 200 {
		return
	}
	got := map[string]any{}
	wanted := map[string]any{}
	if json.Unmarshal(w.Body.Bytes(), &got) == nil && json.Unmarshal(want.Body, &wanted) == nil {
		if recorded, ok := wanted["AccessorID"].(string); ok && e.Request.Path == "/v1/acl/token" {
			here, _ := got["AccessorID"].(string)
			p.mu.Lock()
			p.accessors[recorded] = here
			p.mu.Unlock()
		}
		for _, name := range []string{"ModifyIndex", "JobModifyIndex"} {
			if r, ok := wanted[name].(float64); ok {
				h, _ := got[name].(float64)
				p.learn(uint64(r), uint64(h))
			}
		}
	}
	// In other themes a placeholder replaces large bodies.
	if p.bodiesDiffer || len(want.Body) == 0 || string(want.Body) == "null" || want.Body[0] == '"' {
		return
	}
	if got, want := part(e, w.Body.Bytes()), part(e, want.Body); !reflect.DeepEqual(got, want) {
		t.Errorf("%s (%s): got\n%v\nwant\n%v", e.ID, e.Note, got, want)
	}
}

// part is the compared part of an answer: no index, id, time or scheduler's work.
func part(e *nomadtest.Exchange, body []byte) any {
	type event struct {
		Count         *int64
		PreviousCount int64
		Error         bool
		Message       string
		Meta          map[string]any
	}
	switch path := e.Request.Path; {
	case path == "/v1/status/leader":
		var address string
		return json.Unmarshal(body, &address) == nil && strings.HasPrefix(address, "127.0.0.1:")
	case path == "/v1/agent/health":
		return canonical(body)
	case path == "/v1/scaling/policies":
		type stub struct {
			ID, Type string
			Enabled  bool
			Target   map[string]string
		}
		return decoded[[]stub](body)
	case strings.HasPrefix(path, "/v1/scaling/policy/"):
		type policy struct {
			ID, Type string
			Enabled  bool
			Min, Max int64
			Policy   any
			Target   map[string]string
		}
		return decoded[policy](body)
	case strings.HasSuffix(path, "/scale") && e.Request.Method == http.MethodGet:
		type status struct {
			JobID, Namespace string
			JobStopped       bool
			TaskGroups       map[string]struct {
				Desired int64
				Events  []event
			}
		}
		body = bytes.ReplaceAll(body, bytes.Repeat([]byte("x"), 1_200_000), []byte("(1200000 characters, left out)")) // as recorded
		return decoded[status](body)
	case strings.HasPrefix(path, "/v1/job/") && e.Request.Method == http.MethodGet:
		type job struct {
			ID, Namespace string
			Stop          bool
			TaskGroups    []struct {
				Name  string
				Count int64
			}
		}
		return decoded[job](body)
	}
	var reply struct {
		EvalID          string
		EvalCreateIndex uint64
	}
	_ = json.Unmarshal(body, &reply)
	return [2]bool{reply.EvalID == "", reply.EvalCreateIndex == 0}
}

// canonical is JSON with sorted keys.
func canonical(body []byte) string {
	var out any
	if err := json.Unmarshal(body, &out); err != nil {
		return string(body)
	}
	return string(must(json.Marshal(out)))
}

func decoded[T any](body []byte) any {
	var out T
	if err := json.Unmarshal(body, &out); err != nil {
		return err.Error()
	}
	return string(must(json.Marshal(out)))
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func TestPolicies(t *testing.T) { play(t, "policies", "", 64, nil) }

func TestCompareAndSet(t *testing.T) { play(t, "cas", "", 12, nil) }

func TestLongPolls(t *testing.T) { play(t, "longpoll", "", 8, nil) }

func TestScale(t *testing.T) {
	play(t, "scale", "", 148, func(s *nomadtest.Server, e *nomadtest.Exchange) {
		if strings.HasPrefix(e.Request.Path, "/v1/deployment/fail/") {
			s.FailDeployment("default", "slowdeploy")
		}
	})
}

// Paths, methods and parameters that are refused. The rest of the theme is about other ports,
// too many connections, and the server's end.
func TestFaults(t *testing.T) { play(t, "faults", "faults-0036", 31, nil) }

// A server goes back in time under waiting queries, which wakes none of them. The rest of the
// theme is the server's restart.
func TestRestore(t *testing.T) {
	var snapshot *nomadtest.Snapshot
	play(t, "restore", "restore-0029", 24, func(s *nomadtest.Server, e *nomadtest.Exchange) {
		switch e.Request.Method + " " + e.Request.Path {
		case "GET /v1/scaling/policies":
			if snapshot == nil {
				register(t, s)
				snapshot = s.Snapshot()
			}
		case "GET /v1/operator/snapshot":
			snapshot = s.Snapshot()
		case "PUT /v1/operator/snapshot":
			s.Restore(snapshot)
		}
	})
}

// register registers the job that existed before the recording.
func register(t *testing.T, s *nomadtest.Server) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://nomad/v1/jobs", strings.NewReader(
		`{"Job": {"ID": "web", "Type": "service", "TaskGroups": [{"Name": "web", "Count": 1, "Scaling": {"Enabled": true, "Min": 0, "Max": 9, "Policy": {"setpoint": "x"}}}]}}`)))
	if w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
}

// Permissions: 30 calls with 18 tokens, and tokens that are revoked, expire or lose their
// policy. All but what no agent asks for is replayed.
func TestTokens(t *testing.T) {
	play(t, "acl", "", 492, func(s *nomadtest.Server, e *nomadtest.Exchange) {
		switch e.ID {
		case "acl-0583": // created before the recording
			s.SetToken("token:midway", `namespace "*" { policy = "scale" }`)
		case "acl-0586":
			s.Revoke("token:midway")
		}
	})
}

// groupStatus is the compared part of a group's status.
type groupStatus struct{ Desired, Placed, Running, Healthy, Unhealthy int }

// jobStatus is the compared part of a scale status.
type jobStatus struct {
	JobID, Namespace string
	JobStopped       bool
	TaskGroups       map[string]struct {
		groupStatus
		Events []struct {
			Count   *int64
			Message string
		}
	}
}

// settled reports whether all wanted allocations are healthy, none is wanted, or none can be
// placed; or a scaling has just reset the health of all. In between the timing of a scheduler
// and clients matters.
func (s *jobStatus) settled() bool {
	all := true
	for _, g := range s.TaskGroups {
		healthy := g.Placed == g.Desired && g.Running == g.Desired && (g.Healthy == g.Desired || g.Healthy == 0)
		all = all && (healthy || g.Placed == 0 && (s.JobStopped || s.JobID == "big"))
	}
	return all
}

// The theme status from the registration to the purge: each exchange is replayed at its time,
// except for blocking queries and evaluations, which no agent asks for.
func TestScaleStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nomadtest.Server{DeploymentTime: 1300 * time.Millisecond, Placement: &nomadtest.Placement{StartTime: 300 * time.Millisecond, StopTime: 1500 * time.Millisecond}}
		began, compared := time.Now(), map[string]int{}
		for _, e := range nomadtest.Recorded(t, "status") {
			if e.Request.Method == "" || e.Request.Query["index"] != nil || strings.HasSuffix(e.Request.Path, "/evaluations") {
				continue
			}
			time.Sleep(e.At() - time.Since(began))
			query := url.Values{}
			for name, value := range e.Request.Query {
				query.Set(name, fmt.Sprint(value))
			}
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest(e.Request.Method, "http://nomad"+e.Request.Path+"?"+query.Encode(), bytes.NewReader(e.Request.Body)))
			compared[e.Request.Method] += compareStatus(t, e, w)
		}
		if compared["GET"] < 20 || compared["POST"] < 8 || compared["DELETE"] != 2 {
			t.Errorf("compared were %v", compared)
		}
	})
}

// compareStatus compares an answer with the recorded one, and returns 1 if it did compare.
func compareStatus(t *testing.T, e *nomadtest.Exchange, w *httptest.ResponseRecorder) int {
	t.Helper()
	switch {
	case w.Code != e.Response.Status:
		t.Errorf("%s (%s): got %d %s, want %d", e.ID, e.Note, w.Code, w.Body, e.Response.Status)
		return 0
	case w.Code >= 300:
		if got, want := strings.TrimSpace(w.Body.String()), strings.TrimSpace(e.Response.BodyText); got != want {
			t.Errorf("%s (%s): got %q, want %q", e.ID, e.Note, got, want)
		}
		return 1
	case strings.HasSuffix(e.Request.Path, "/allocations"):
		type allocation struct{ ClientStatus, DesiredStatus string }
		states := func(body []byte) (out []string) {
			var all []allocation
			if err := json.Unmarshal(body, &all); err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				out = append(out, a.DesiredStatus+"/"+a.ClientStatus)
			}
			slices.Sort(out)
			return out
		}
		if got, want := states(w.Body.Bytes()), states(e.Response.Body); !slices.Equal(got, want) {
			t.Errorf("%s (%s): got %v, want %v", e.ID, e.Note, got, want)
		}
		return 1
	case e.Request.Method != http.MethodGet:
		return 1
	}
	got, want := statusOf(t, w.Body.Bytes()), statusOf(t, e.Response.Body)
	if !want.settled() {
		return 0
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s (%s): got %+v, want %+v", e.ID, e.Note, got, want)
	}
	return 1
}

func statusOf(t *testing.T, body []byte) (s jobStatus) {
	t.Helper()
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
