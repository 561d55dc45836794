package webhook_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const secret = "0123456789abcdef0123456789abcdef"

// world is a scheduler that serves the three calls over a pipe. It implements agenttest.World.
type world struct {
	agenttest.Faults

	t       testing.TB
	client  *webhook.Client
	options webhook.Options
	keyFile string
	pipe    *agenttest.Pipe

	mu      sync.Mutex
	keys    []webhook.Key          // guarded by mu, as is all that follows
	targets map[string]*fakeTarget // by name
	made    int
	// applied are the applied recommendations.
	applied  map[string]bool
	loads    map[string]int32 // ten times the wanted replicas, by target
	nonces   map[string]bool
	pageSize int
	calls    []recorded
	// mangle changes an answer before it is signed, and tamper afterwards.
	mangle, tamper func(path string, said *reply)
}

// reply is an answer of the world.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// recorded is a call and its answer, as sent.
type recorded struct {
	method, path, query string
	body                []byte
	status              int
	answer              []byte
}

type fakeTarget struct {
	uid      string
	replicas int32
	version  int
	entry    map[string]any
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, targets: map[string]*fakeTarget{}, loads: map[string]int32{}, nonces: map[string]bool{}, applied: map[string]bool{},
		keys: []webhook.Key{{Name: "k1", Secret: []byte(secret)}}, pageSize: 3, keyFile: filepath.Join(t.TempDir(), "keys"),
	}
	w.writeKeys("k1:" + secret)
	pipe := agenttest.NewPipe()
	w.pipe = pipe
	server := &http.Server{Handler: w}
	go func() { _ = server.Serve(pipe) }()
	client, err := webhook.Connect(webhook.Server{URL: "http://127.0.0.1:8080/setpoint/", KeyFile: w.keyFile, DialContext: pipe.DialContext})
	fatal.If(t, err)
	w.client = client
	t.Cleanup(func() {
		client.Close()
		_ = server.Close()
	})
	return w
}

// writeKeys replaces the agent's file of keys.
func (w *world) writeKeys(text string) {
	w.t.Helper()
	fatal.If(w.t, os.WriteFile(w.keyFile+".new", []byte(text), 0o600))
	fatal.If(w.t, os.Rename(w.keyFile+".new", w.keyFile))
}

// Platform implements agenttest.World.
func (w *world) Platform() agent.Watched { return webhook.New(w.client, w.options) }

var atOnce = map[string]any{
	"stabilizationWindowSeconds": 0, "policies": []any{map[string]any{"type": "Pods", "value": 100, "periodSeconds": 1}},
}

// Create implements agenttest.World.
func (w *world) Create(wl agenttest.Workload) agent.Key {
	spec := map[string]any{
		"minReplicas": agenttest.MinReplicas, "maxReplicas": agenttest.MaxReplicas,
		"metrics": []any{map[string]any{"type": "External", "external": map[string]any{
			"metric": map[string]any{"name": "queue"}, "target": map[string]any{"type": "AverageValue", "averageValue": "10"},
		}}},
	}
	if !wl.Steady {
		spec["behavior"] = map[string]any{"scaleUp": atOnce, "scaleDown": atOnce}
	}
	w.Want(wl.Name, wl.Replicas)
	return w.create(wl.Name, wl.Replicas, map[string]any{"spec": spec, "shadow": wl.Shadow})
}

// create creates a target with that entry in the list; it adds the names.
func (w *world) create(name string, replicas int32, entry map[string]any) agent.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	uid := fmt.Sprintf("uid-%d", w.made)
	entry["namespace"], entry["name"], entry["uid"] = "shop", name, uid
	w.targets[name] = &fakeTarget{uid: uid, replicas: replicas, entry: entry}
	return agent.Key{Kind: webhook.Kind, Namespace: "shop", Name: name}
}

// edit changes an entry of the list.
func (w *world) edit(name string, change func(map[string]any)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.targets[name].entry)
}

// Remove implements agenttest.World.
func (w *world) Remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.targets, name)
}

// Want implements agenttest.World.
func (w *world) Want(name string, replicas int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads[name] = 10 * replicas
}

// Scale implements agenttest.World.
func (w *world) Scale(name string, replicas int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets[name].replicas = replicas
	w.targets[name].version++
}

// Replicas implements agenttest.World.
func (w *world) Replicas(name string) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.targets[name].replicas
}

// set sets a field of the world.
func set[T any](w *world, field *T, value T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*field = value
}

// recorded returns and clears the calls so far.
func (w *world) recorded() []recorded {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func said(status int, body any) *reply {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &reply{status, http.Header{"Content-Type": {"application/json"}}, text}
}

func failed(status int, format string, args ...any) *reply {
	return said(status, webhook.Failure{Error: fmt.Sprintf(format, args...)})
}

// ServeHTTP is the scheduler.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key, problem := w.verify(r, body)
	if problem != "" {
		http.Error(rw, problem, http.StatusUnauthorized) // without a key to sign with
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/setpoint")
	if path == "/apply" {
		w.BeginWrite()
	}
	w.mu.Lock()
	answer := w.answer(r, path, body)
	if w.mangle != nil {
		w.mangle(path, answer)
	}
	now := time.Now()
	answer.header.Set(webhook.HeaderKey, key.Name)
	answer.header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	answer.header.Set(webhook.HeaderSignature, key.SignAnswer(answer.status, now, r.Header.Get(webhook.HeaderNonce), answer.header.Get("ETag"), answer.body))
	if w.tamper != nil {
		w.tamper(path, answer)
	}
	w.calls = append(w.calls, recorded{r.Method, path, r.URL.RawQuery, body, answer.status, answer.body})
	w.mu.Unlock()
	maps.Copy(rw.Header(), answer.header)
	rw.WriteHeader(answer.status)
	_, _ = rw.Write(answer.body)
}

// verify is a server's check of a request.
func (w *world) verify(r *http.Request, body []byte) (webhook.Key, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.keys, func(k webhook.Key) bool { return k.Name == r.Header.Get(webhook.HeaderKey) })
	if i < 0 {
		return webhook.Key{}, "no such key"
	}
	seconds, err := strconv.ParseInt(r.Header.Get(webhook.HeaderTimestamp), 10, 64)
	at, nonce := time.Unix(seconds, 0), r.Header.Get(webhook.HeaderNonce)
	switch {
	case err != nil || time.Since(at).Abs() > webhook.Window:
		return webhook.Key{}, "the clocks differ"
	case w.keys[i].SignRequest(r.Method, r.RequestURI, at, nonce, body) != r.Header.Get(webhook.HeaderSignature):
		return webhook.Key{}, "the signature is wrong"
	case len(nonce) != 32 || w.nonces[nonce]:
		return webhook.Key{}, "the nonce was used before"
	}
	w.nonces[nonce] = true
	return w.keys[i], ""
}

// answer handles a call. The lock is held.
func (w *world) answer(r *http.Request, path string, body []byte) *reply {
	switch {
	case w.ReadErr() != nil && path != "/apply":
		return failed(http.StatusInternalServerError, "%v", w.ReadErr())
	case r.Method == http.MethodGet && path == "/targets":
		return w.list(r)
	case r.Method == http.MethodPost && path == "/observe":
		return w.observe(body)
	case r.Method == http.MethodPost && path == "/apply":
		return w.apply(body)
	}
	return failed(http.StatusNotFound, "there is no call %s %s", r.Method, path)
}

func (w *world) list(r *http.Request) *reply {
	token := r.URL.Query().Get("pageToken")
	page := webhook.Page{Targets: []json.RawMessage{}}
	names := slices.Sorted(maps.Keys(w.targets))
	for i, name := range names {
		if name <= token {
			continue
		}
		text, err := json.Marshal(w.targets[name].entry)
		if err != nil {
			panic(err)
		}
		page.Targets = append(page.Targets, text)
		if len(page.Targets) == w.pageSize && i < len(names)-1 {
			page.NextPageToken = name
			break
		}
	}
	answer := said(http.StatusOK, page)
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(answer.body))
	if r.Header.Get("If-None-Match") == etag {
		answer.status, answer.body = http.StatusNotModified, nil
	}
	answer.header.Set("ETag", etag)
	return answer
}

// find finds the target of a call.
func (w *world) find(name, uid string) (*fakeTarget, *reply) {
	t := w.targets[name]
	if t == nil || t.uid != uid {
		return nil, failed(http.StatusNotFound, "there is no such target")
	}
	return t, nil
}

func (w *world) observe(body []byte) *reply {
	var q webhook.Question
	if err := json.Unmarshal(body, &q); err != nil {
		return failed(http.StatusBadRequest, "%v", err)
	}
	t, refusal := w.find(q.Name, q.UID)
	if refusal != nil {
		return refusal
	}
	pods := []any{}
	for i := range t.replicas {
		pods = append(pods, map[string]any{"name": fmt.Sprintf("%s-%d", q.Name, i), "phase": "Running"})
	}
	return said(http.StatusOK, map[string]any{
		"version": strconv.Itoa(t.version),
		"request": map[string]any{
			"scale": map[string]any{"specReplicas": t.replicas, "statusReplicas": t.replicas},
			"pods":  pods,
			"externalMetrics": []any{map[string]any{
				"metric": map[string]any{"name": "queue"}, "value": fmt.Sprint(w.loads[q.Name]), "timestamp": time.Now().UTC().Format(time.RFC3339Nano),
			}},
		},
	})
}

func (w *world) apply(body []byte) *reply {
	var a webhook.Application
	if err := json.Unmarshal(body, &a); err != nil {
		return failed(http.StatusBadRequest, "%v", err)
	}
	t, refusal := w.find(a.Name, a.UID)
	switch {
	case refusal != nil:
		return refusal
	case w.WriteErr() != nil:
		return failed(http.StatusInternalServerError, "%v", w.WriteErr())
	case w.applied[a.RecommendationID]:
		return said(http.StatusOK, struct{}{})
	case t.replicas != a.CurrentReplicas || strconv.Itoa(t.version) != a.Version:
		return failed(http.StatusConflict, "it has %d replicas", t.replicas)
	}
	t.replicas = a.DesiredReplicas
	t.version++
	w.Wrote()
	w.applied[a.RecommendationID] = true
	return said(http.StatusOK, struct{}{})
}
