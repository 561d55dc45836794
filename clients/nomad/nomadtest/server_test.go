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

// player plays a recording against a server, each request when it was sent. Indexes differ, as
// the server has no nodes, so what was recorded is told from what it is here by the answers.
type player struct {
	t      *testing.T
	server *nomadtest.Server

	// bodiesDiffer says that the theme does not show how what it reads came to be.
	bodiesDiffer bool

	// accessors of tokens that were recorded, as they are here.
	accessors map[string]string

	mu      sync.Mutex
	indexes map[uint64]uint64 // recorded to here; guarded by mu
	played  int
	left    map[string]int // of what the server has not, by method and path
}

// unknown says whether the server has no such call, or one whose answers are what a scheduler and
// clients do.
func unknown(e *nomadtest.Exchange) bool {
	path := e.Request.Path
	switch {
	case path == "/v1/jobs":
		return e.Request.Method == http.MethodGet || strings.Contains(e.Response.BodyText, "validation failed") // it takes any bounds
	case strings.HasPrefix(path, "/v1/scaling"), strings.HasPrefix(path, "/v1/nonsense"), strings.HasPrefix(path, "/v2/"):
		return false
	case strings.HasPrefix(path, "/v1//"), strings.HasPrefix(path, "/v1/job//"):
		return false
	case strings.HasPrefix(path, "/v1/job/"):
		return strings.Contains(path, "/deployment") || strings.Contains(path, "/allocations")
	}
	return true
}

// withTokens are the themes in which tokens count; the server of the others has none.
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
			if e.Request.Method == "" {
				continue
			}
			time.Sleep(e.At() - time.Since(began))
			synctest.Wait()
			if before != nil {
				before(p.server, e)
			}
			if withTokens[theme] && e.Request.Path == "/v1/event/stream" || !withTokens[theme] && unknown(e) {
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

// allocationIDs gives the first allocation of each job the id that was asked for in the theme acl.
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

// policyIDs gives policies the ids that were recorded, in the order of their first appearance.
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

// here returns a recorded index as it is here. One that no answer had is one of the future, or
// lies just before the next one that was answered.
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

// answer has the server answer; the code stays 0 if it closes the connection.
func (p *player) answer(w *httptest.ResponseRecorder, r *http.Request) {
	defer func() {
		if err := recover(); err != nil && err != http.ErrAbortHandler {
			panic(err)
		}
	}()
	p.server.ServeHTTP(w, r)
}

// body is the recorded one with the indexes as they are here.
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

// withoutIndexes leaves those in the text of a conflict out.
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
		if got, want := withoutIndexes(w.Body.String()), withoutIndexes(want.BodyText); got != want && e.Request.Method != http.MethodHead {
			t.Errorf("%s (%s): got %q, want %q", e.ID, e.Note, got, want)
		}
	}
	// A query that waited is over when the recorded one is: at a change, or after its wait and
	// up to a sixteenth of it.
	if recorded := time.Duration(want.DurationMS * float64(time.Millisecond)); took > recorded+recorded/15+100*time.Millisecond || recorded > took+recorded/15+100*time.Millisecond {
		t.Errorf("%s (%s): took %s, want %s", e.ID, e.Note, took, recorded)
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
	// Of large bodies that other themes have a text says that they were left out.
	if p.bodiesDiffer || len(want.Body) == 0 || string(want.Body) == "null" || want.Body[0] == '"' {
		return
	}
	if got, want := part(e, w.Body.Bytes()), part(e, want.Body); !reflect.DeepEqual(got, want) {
		t.Errorf("%s (%s): got\n%v\nwant\n%v", e.ID, e.Note, got, want)
	}
}

// part is what is compared of an answer: what is neither an index, an id, a time nor a matter of
// the scheduler.
func part(e *nomadtest.Exchange, body []byte) any {
	type event struct {
		Count         *int64
		PreviousCount int64
		Error         bool
		Message       string
		Meta          map[string]any
	}
	switch path := e.Request.Path; {
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

// Paths, methods and parameters that are refused. What follows in the theme are other ports, too
// many connections, and the server's end.
func TestFaults(t *testing.T) { play(t, "faults", "faults-0036", 31, nil) }

// A server goes back under queries that wait, which wakes none of them. What follows in the
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

// register registers the job that there was before the recording.
func register(t *testing.T, s *nomadtest.Server) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://nomad/v1/jobs", strings.NewReader(
		`{"Job": {"ID": "web", "Type": "service", "TaskGroups": [{"Name": "web", "Count": 1, "Scaling": {"Enabled": true, "Min": 0, "Max": 9, "Policy": {"setpoint": "x"}}}]}}`)))
	if w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
}

// Who may what: 30 calls with 18 tokens, and tokens that are revoked, end or lose their policy.
// All but the event stream is played.
func TestTokens(t *testing.T) {
	play(t, "acl", "", 600, func(s *nomadtest.Server, e *nomadtest.Exchange) {
		switch e.ID {
		case "acl-0583": // it was made before the recording
			s.SetToken("token:midway", `namespace "*" { policy = "scale" }`)
		case "acl-0586":
			s.Revoke("token:midway")
		}
	})
}

// Counts and numbers of allocations from the registration to the purge, as far as they do not
// depend on when a scheduler and clients do something: when all that there is to be is healthy, or
// stopped. The chain of blocking queries wakes for allocations, which wake nobody here.
func TestScaleStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type group struct{ Desired, Placed, Running, Healthy, Unhealthy int }
		type status struct {
			JobStopped bool
			TaskGroups map[string]group
		}
		server := &nomadtest.Server{DeploymentTime: 1300 * time.Millisecond, Placement: &nomadtest.Placement{StartTime: 300 * time.Millisecond, StopTime: 1500 * time.Millisecond}}
		began, compared, resets := time.Now(), 0, 0
		for _, e := range nomadtest.Recorded(t, "status") {
			if e.ID == "status-0033" {
				break // a job that no node can hold
			}
			if e.Request.Method == "" || e.Request.Query["index"] != nil {
				continue
			}
			time.Sleep(e.At() - time.Since(began))
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest(e.Request.Method, "http://nomad"+e.Request.Path, bytes.NewReader(e.Request.Body)))
			if w.Code != e.Response.Status {
				t.Errorf("%s (%s): got %d %s, want %d", e.ID, e.Note, w.Code, w.Body, e.Response.Status)
			}
			var got, want status
			if e.Request.Method != http.MethodGet || w.Code != 200 {
				continue
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(e.Response.Body, &want); err != nil {
				t.Fatal(err)
			}
			settled, reset := true, true
			for _, g := range want.TaskGroups {
				settled = settled && g.Placed == g.Desired && g.Running == g.Desired && g.Healthy == g.Desired
				reset = reset && g.Placed == g.Desired && g.Running == g.Desired && g.Healthy == 0
			}
			switch {
			case settled:
				compared++
			case reset:
				resets++
			default:
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s (%s): got %+v, want %+v", e.ID, e.Note, got, want)
			}
		}
		if compared < 6 || resets < 2 {
			t.Errorf("%d settled statuses and %d of a reset of everyone's health were compared", compared, resets)
		}
	})
}
