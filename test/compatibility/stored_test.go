//go:build unix

package compatibility

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

var update = flag.Bool("update", false, "write testdata anew, as a release does")

// step is a REST request, and its answer.
type step struct {
	Method, Path string
	Body         json.RawMessage `json:",omitempty"`
	// Want is the answer, which may have more fields.
	Want json.RawMessage `json:",omitempty"`
}

// stored is the content of Redis by a version, and that version's answers.
type stored struct {
	// Keys are Redis' keys without the prefix.
	Keys []key
	// Steps are asked one after the other.
	Steps []step
}

// key is one of Redis' keys; bytes are in hexadecimal.
type key struct {
	Name, Type string
	// Values are the string, or the elements of the list or sorted set.
	Values []string
	Scores []float64 `json:",omitempty"`
}

const prefix = "compatibility:"

// serve starts the service on a Redis, and returns its REST address.
func serve(t *testing.T, r *redistest.Server) string {
	t.Helper()
	o, err := redis.ParseURL(r.URL())
	fatal.If(t, err)
	o.KeyPrefix, o.Timeout = prefix, time.Minute // other tests may keep the processors busy
	engine, err := redis.New(o)
	fatal.If(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	options := server.DefaultOptions()
	options.Log, options.AllowEvaluationTime, options.MaxClockSkew, options.RequestTimeout = zap.NewNop(), true, 0, 5*time.Minute
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	_, address := testserver.Serve(t, srv)
	return "http://" + address
}

// ask makes a step and returns the answer of a success.
func ask(t *testing.T, address string, s step) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, s.Method, address+s.Path, bytes.NewReader(s.Body))
	fatal.If(t, err)
	response, err := http.DefaultClient.Do(request)
	fatal.If(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s %v", s.Method, s.Path, response.Status, body, err)
	}
	return body
}

const folder = "/v1/clusters/prod/namespaces/shop/targets/"

// recommend requests a recommendation for a target with that usage, a minute after the previous
// one.
func recommend(target string, minute, replicas int, millicores int, more string) step {
	at := time.Date(2026, 11, 22, 12, minute, 0, 0, time.UTC)
	pods, usage := []string{}, []string{}
	for i := range replicas {
		pods = append(pods, fmt.Sprintf(`{"name":"web-%d","phase":"Running","startTime":"2026-01-01T00:00:00Z","ready":{"status":"True","lastTransitionTime":"2026-01-01T00:00:20Z"},"containers":[{"name":"app","requests":{"cpu":"500m"}}]}`, i))
		usage = append(usage, fmt.Sprintf(`{"pod":"web-%d","timestamp":%q,"windowSeconds":30,"containers":[{"name":"app","usage":{"cpu":"%dm"}}]}`, i, at.Format(time.RFC3339), millicores))
	}
	return step{Method: http.MethodPost, Path: folder + target + ":recommend", Body: json.RawMessage(fmt.Sprintf(
		`{"requestId":"%s-%d","evaluationTime":%q,%s"spec":%s,"scale":{"specReplicas":%d,"statusReplicas":%d},"pods":[%s],"podMetrics":[%s]}`,
		target, minute, at.Format(time.RFC3339), more, spec, replicas, replicas, strings.Join(pods, ","), strings.Join(usage, ",")))}
}

const spec = `{"scaleTargetRef":{"kind":"Deployment","name":"web","apiVersion":"apps/v1"},"minReplicas":2,"maxReplicas":20,` +
	`"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}],` +
	`"behavior":{"scaleUp":{"stabilizationWindowSeconds":30,"policies":[{"type":"Percent","value":100,"periodSeconds":120}]},` +
	`"scaleDown":{"stabilizationWindowSeconds":120,"policies":[{"type":"Pods","value":1,"periodSeconds":300}]}}}`

// writing are the steps that store something of every kind: histories that scaled up, down and
// failed, a pending recommendation, a deleted target, specs and what was observed for them.
func writing() []step {
	post := func(path, body string) step {
		return step{Method: http.MethodPost, Path: folder + path, Body: json.RawMessage(body)}
	}
	steps := []step{}
	for minute, at := range []struct{ replicas, usage int }{{3, 300}, {3, 460}, {5, 300}, {5, 100}, {5, 100}, {5, 100}, {5, 100}, {4, 250}} {
		steps = append(steps, recommend("web", minute, at.replicas, at.usage, ""))
	}
	return append(steps,
		recommend("pending", 10, 4, 480, ""),
		recommend("gone", 10, 4, 480, ""),
		step{Method: http.MethodDelete, Path: folder + "gone"},
		recommend("older", 10, 4, 480, `"options":{"profile":"v1.15"},`),
		step{Method: http.MethodPut, Path: folder + "stored/spec", Body: json.RawMessage(`{"spec":` + spec + `,"period":"20s"}`)},
		post("stored:reportObservation", `{"scale":{"specReplicas":3,"statusReplicas":3}}`),
	)
}

// reading are the steps whose answers must not change.
func reading() []step {
	get := func(path string) step { return step{Method: http.MethodGet, Path: folder + path} }
	return []step{
		get("web"), get("web/decisions"), get("pending"), get("older"), get("stored/spec"),
		{Method: http.MethodGet, Path: strings.TrimSuffix(folder, "/")},
		{Method: http.MethodGet, Path: "/v1/clusters/prod/namespaces/shop/targetSpecs"},
		// The effects of the stored data: windows, policies, and a repeated answer.
		recommend("web", 7, 4, 250, ""), recommend("web", 8, 4, 100, ""), recommend("web", 9, 4, 480, ""), recommend("pending", 11, 4, 480, ""),
		recommend("older", 11, 4, 200, `"options":{"profile":"v1.15"},`), recommend("gone", 11, 4, 480, ""),
	}
}

// dump reads all keys of the service.
func dump(t *testing.T, client *goredis.Client) []key {
	t.Helper()
	ctx := t.Context()
	names, err := client.Keys(ctx, prefix+"*").Result()
	fatal.If(t, err)
	slices.Sort(names)
	var all []key
	for _, name := range names {
		k := key{Name: strings.TrimPrefix(name, prefix), Type: client.Type(ctx, name).Val()}
		switch k.Type {
		case "string":
			k.Values = []string{hex.EncodeToString([]byte(client.Get(ctx, name).Val()))}
		case "list":
			for _, v := range client.LRange(ctx, name, 0, -1).Val() {
				k.Values = append(k.Values, hex.EncodeToString([]byte(v)))
			}
		case "zset":
			for _, z := range client.ZRangeWithScores(ctx, name, 0, -1).Val() {
				k.Values, k.Scores = append(k.Values, hex.EncodeToString([]byte(z.Member.(string)))), append(k.Scores, z.Score)
			}
		default: // in Redis' own form, which as old a server and newer ones read
			k.Values = []string{hex.EncodeToString([]byte(client.Dump(ctx, name).Val()))}
		}
		all = append(all, k)
	}
	return all
}

// load restores a dump.
func load(t *testing.T, client *goredis.Client, keys []key) {
	t.Helper()
	ctx := t.Context()
	for _, k := range keys {
		for i, v := range k.Values {
			raw, err := hex.DecodeString(v)
			fatal.If(t, err)
			switch k.Type {
			case "string":
				err = client.Set(ctx, prefix+k.Name, raw, 0).Err()
			case "list":
				err = client.RPush(ctx, prefix+k.Name, raw).Err()
			case "zset":
				err = client.ZAdd(ctx, prefix+k.Name, goredis.Z{Score: k.Scores[i], Member: raw}).Err()
			default:
				err = client.Restore(ctx, prefix+k.Name, 0, string(raw)).Err()
			}
			fatal.If(t, err)
		}
	}
}

// less returns the first place where an answer lacks a wanted value, "" for none. More fields
// are fine: a minor release adds some.
func less(at string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for name, value := range want {
			if _, ok := have[name]; !ok {
				return at + "." + name + " is missing"
			}
			if problem := less(at+"."+name, have[name], value); problem != "" {
				return problem
			}
		}
	case []any:
		have, _ := got.([]any)
		if len(have) != len(want) {
			return fmt.Sprintf("%s has %d elements, not %d", at, len(have), len(want))
		}
		for i := range want {
			if problem := less(fmt.Sprintf("%s[%d]", at, i), have[i], want[i]); problem != "" {
				return problem
			}
		}
	default:
		if got != want {
			return fmt.Sprintf("%s is %v, not %v", at, got, want)
		}
	}
	return ""
}

// passing are the fields whose values may differ: names of answers, and wall-clock times.
var passing = []string{"recommendationId", "updateTime", "etag", "observeTime", "createTime"}

func withoutPassing(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if slices.Contains(passing, name) {
				delete(v, name)
				continue
			}
			withoutPassing(value)
		}
	case []any:
		for _, value := range v {
			withoutPassing(value)
		}
	}
	return v
}

func parse(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v of %s", err, raw)
	}
	return withoutPassing(v)
}

// Today's code reads the data that a release stored in Redis, and answers as the release did:
// an upgrade loses nothing and changes no decision. Files are never rewritten once released; a
// new format gets a new file, `stored-vN.json`.
func TestWhatWasStoredIsReadAndDecidedUpon(t *testing.T) {
	redistest.Require(t)
	if *update {
		write(t, "testdata/stored-v1.json")
	}
	files, err := filepath.Glob("testdata/stored-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stored data to read: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw := testpages.Read(t, file)
			var s stored
			fatal.If(t, json.Unmarshal([]byte(raw), &s))
			r := redistest.Start(t, redistest.Config{})
			load(t, r.Client(t), s.Keys)
			address := serve(t, r)
			for _, step := range s.Steps {
				if problem := less("the answer", parse(t, ask(t, address, step)), parse(t, step.Want)); problem != "" {
					t.Errorf("%s %s: %s", step.Method, step.Path, problem)
				}
			}
		})
	}
}

// write makes the service of this version store data, and records its answers.
func write(t *testing.T, file string) {
	t.Helper()
	r := redistest.Start(t, redistest.Config{})
	address := serve(t, r)
	for _, step := range writing() {
		ask(t, address, step)
	}
	s := stored{Keys: dump(t, r.Client(t)), Steps: reading()}
	for i := range s.Steps {
		s.Steps[i].Want = ask(t, address, s.Steps[i])
	}
	raw, err := json.MarshalIndent(s, "", " ")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(file, append(raw, '\n'), 0o644))
}
