package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// watched is a world with a watched platform, in a bubble of synctest.
type watched struct {
	*world
	platform *webhook.Platform
	log      *observer.ObservedLogs
	told     chan agent.Key
}

// watch runs a test with a watched world.
func watch(t *testing.T, test func(t *testing.T, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		w := &watched{world: newWorld(t), log: logs, told: make(chan agent.Key, 10_000)}
		w.options.Log = zap.New(core)
		w.platform = webhook.New(w.client, w.options)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.platform.Watch(ctx, func(key agent.Key) { w.told <- key }) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		test(t, w)
	})
}

// goneAfter is how long lists must lack a deleted target.
const goneAfter = time.Minute

// listed waits for at least one more list.
func listed() {
	time.Sleep(11 * time.Second)
	synctest.Wait()
}

// news returns the names of notified targets since the last call, in order.
func (w *watched) news() []string {
	var names []string
	for len(w.told) > 0 {
		names = append(names, (<-w.told).Name)
	}
	slices.Sort(names)
	return names
}

// logged returns the errors in the log.
func (w *watched) logged() string {
	var lines []string
	for _, line := range w.log.TakeAll() {
		lines = append(lines, fmt.Sprint(line.Message, " ", line.ContextMap()["error"], line.ContextMap()["problems"]))
	}
	return strings.Join(lines, "\n")
}

func TestWatchTellsOfWhatTargetsWant(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		for _, step := range []struct {
			what string
			do   func()
			want []string
		}{
			{"the start, over pages", func() {
				for i := range 8 {
					w.Create(agenttest.Workload{Name: fmt.Sprintf("t%d", i), Replicas: 3})
				}
			}, []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"}},
			{"a change of a count", func() { w.Scale("t0", 5) }, nil},
			{"a change of what is wanted", func() { w.edit("t1", func(e map[string]any) { e["period"] = "30s" }) }, []string{"t1"}},
			{"a target that is made again", func() {
				w.Remove("t2")
				w.Create(agenttest.Workload{Name: "t2", Replicas: 3})
			}, []string{"t2"}},
			{"a target that goes", func() { w.Remove("t3"); time.Sleep(goneAfter) }, []string{"t3"}},
		} {
			step.do()
			listed()
			listed()
			if got := w.news(); !slices.Equal(got, step.want) {
				t.Errorf("%s: told of %v, want %v", step.what, got, step.want)
			}
		}
	})
}

// An unchanged list costs an empty answer per page.
func TestAnIdleListIsCheap(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		for i := range 8 {
			w.Create(agenttest.Workload{Name: fmt.Sprintf("t%d", i), Replicas: 3})
		}
		listed()
		w.recorded()
		listed()
		calls := w.recorded()
		if len(calls) != 3 {
			t.Errorf("%d calls for three pages", len(calls))
		}
		for _, c := range calls {
			if c.status != http.StatusNotModified || len(c.answer) > 0 {
				t.Errorf("%s?%s: %d, %d bytes", c.path, c.query, c.status, len(c.answer))
			}
		}
	})
}

// A target that is missing from one list is held, and only gone if the next list lacks it, too:
// a page that was read amid a change must not delete its history.
func TestATargetThatOneListLacksIsHeld(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		lacks := 1
		set(w.world, &w.mangle, func(path string, r *reply) {
			if path == "/targets" && lacks > 0 {
				lacks--
				*r = *said(http.StatusOK, webhook.Page{Targets: []json.RawMessage{}})
			}
		})
		time.Sleep(10*time.Second - 500*time.Millisecond)
		synctest.Wait()
		if hold := agenttest.Object(t, w.platform, key).Hold; hold == nil || hold.Reason != agent.ReasonNotListed {
			t.Errorf("held: %+v", hold)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if hold := agenttest.Object(t, w.platform, key).Hold; hold != nil {
			t.Errorf("it is listed again, and held: %+v", hold)
		}
		w.Remove("web")
		listed()
		time.Sleep(goneAfter - 15*time.Second)
		synctest.Wait()
		if hold := agenttest.Object(t, w.platform, key).Hold; hold == nil || hold.Reason != agent.ReasonNotListed {
			t.Errorf("before the minute is over: %+v", hold)
		}
		time.Sleep(15 * time.Second)
		listed()
		if _, err := w.platform.Object(t.Context(), key, nil); !errors.Is(err, agent.ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	})
}

// Only lists say that a target is gone: not a time in which none could be read, as when the server starts again and lists
// nothing before and after.
func TestATargetIsNotGoneByTheTimeWithoutLists(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		answers := func(with *reply) {
			set(w.world, &w.mangle, func(path string, r *reply) {
				if path == "/targets" {
					*r = *with
				}
			})
		}
		nothing := said(http.StatusOK, webhook.Page{Targets: []json.RawMessage{}})
		answers(nothing)
		listed()
		answers(failed(http.StatusServiceUnavailable, "it starts"))
		time.Sleep(2 * goneAfter)
		answers(nothing)
		listed()
		if hold := agenttest.Object(t, w.platform, key).Hold; hold == nil || hold.Reason != agent.ReasonNotListed {
			t.Errorf("after two minutes without lists: %+v", hold)
		}
		time.Sleep(goneAfter)
		if _, err := w.platform.Object(t.Context(), key, nil); !errors.Is(err, agent.ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	})
}

// The server's reasons are its own words: the agent takes none for one of its reasons.
func TestAReasonOfTheServerIsNoneOfTheAgents(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		w.edit("web", func(e map[string]any) { e["hold"] = map[string]any{"reason": agent.ReasonNotListed} })
		listed()
		w.Remove("web")
		listed()
		if hold := agenttest.Object(t, w.platform, key).Hold; hold == nil || hold.Message != "the last list does not have it" {
			t.Errorf("held: %+v", hold)
		}
		w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		before := agenttest.Object(t, w.platform, key)
		w.edit("web", func(e map[string]any) {
			e["uid"], e["hold"] = "another", map[string]any{"reason": agent.ReasonInvalidObject}
		})
		listed()
		if o := agenttest.Object(t, w.platform, key); o.UID != "another" {
			t.Errorf("it is %q, though the list has another target than %q", o.UID, before.UID)
		}
	})
}

func TestAWrongTargetHoldsItselfOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(entry map[string]any)
		want   string // what the hold says
	}{
		{"an unknown field", func(e map[string]any) { e["shadows"] = true }, "shadows: there is no such key; did you mean shadow?"},
		{"a field of another spelling", func(e map[string]any) { e["Shadow"] = true }, "Shadow: there is no such key; did you mean shadow?"},
		{"a number where a text is", func(e map[string]any) { e["period"] = 15 }, `period: must be a duration from 1s to 1h0m0s, such as 15s, not "15": write 15s`},
		{"a field of another type", func(e map[string]any) { e["period"] = 15 }, "period"},
		{"an unknown field of the spec", func(e map[string]any) { e["spec"].(map[string]any)["maxReplica"] = 3 }, "spec.maxReplica: there is no such key; did you mean maxReplicas?"},
		{"no spec", func(e map[string]any) { delete(e, "spec") }, "max: is required"},
		{"a spec that is a text", func(e map[string]any) { e["spec"] = "x" }, "spec: "},
		{"unknown options", func(e map[string]any) { e["options"] = map[string]any{"speed": 1} }, "options.speed: there is no such key"},
		{"a period that is none", func(e map[string]any) { e["period"] = "often" }, "period: must be a duration"},
		{"a period that is too short", func(e map[string]any) { e["period"] = "1ms" }, "period: must be a duration"},
		{"a uid that is too long", func(e map[string]any) { e["uid"] = strings.Repeat("x", 200) }, "uid: must have at most"},
		{"a hold without a reason", func(e map[string]any) { e["hold"] = map[string]any{"message": "x"} }, "hold.reason"},
		{"a hold", func(e map[string]any) { e["hold"] = map[string]any{"reason": "Deploying", "message": "v2 rolls out"} }, "the server holds it: v2 rolls out"},
		{"a hold without a message", func(e map[string]any) { e["hold"] = map[string]any{"reason": "Deploying"} }, "the server holds it: Deploying"},
		{"too much", func(e map[string]any) { e["options"] = map[string]any{"profile": strings.Repeat("x", 100_000)} }, "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				right, wrong := w.Create(agenttest.Workload{Name: "right", Replicas: 3}), w.Create(agenttest.Workload{Name: "wrong", Replicas: 3})
				w.edit("wrong", tt.change)
				listed()
				if hold := agenttest.Object(t, w.platform, right).Hold; hold != nil {
					t.Errorf("the other is held: %+v", hold)
				}
				if hold := agenttest.Object(t, w.platform, wrong).Hold; hold == nil || !strings.Contains(hold.Message, tt.want) {
					t.Errorf("held: %+v, want %q", hold, tt.want)
				}
			})
		})
	}
}

// A key that stands twice, at any depth, holds its target; the name is read nevertheless, so that
// the history stays.
func TestKeysThatStandTwice(t *testing.T) {
	t.Parallel()
	for name, twice := range map[string]string{
		"on top": `"period": "1s", "period": "2s"`, "of a metric": `"metric": {"q": {"source": "a", "average": 1, "average": 2}}`,
		"of the metrics": `"metric": {"q": {"source": "a"}, "q": {"source": "b"}}`, "of the spec": `"spec": {"maxReplicas": 3, "maxReplicas": 4}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
				listed()
				before := agenttest.Object(t, w.platform, key)
				set(w.world, &w.mangle, func(path string, r *reply) {
					if path == "/targets" {
						*r = *said(http.StatusOK, webhook.Page{Targets: []json.RawMessage{json.RawMessage(
							`{"namespace": "shop", "name": "web", "uid": "` + before.UID + `", "max": 3, ` + twice + `}`)}})
					}
				})
				listed()
				o := agenttest.Object(t, w.platform, key)
				if o.Hold == nil || o.Hold.Reason != agent.ReasonInvalidObject || !strings.Contains(o.Hold.Message, "duplicate field") || o.UID != before.UID {
					t.Errorf("%q, held: %+v; it was %q", o.UID, o.Hold, before.UID)
				}
			})
		})
	}
}

// An invalid target's UID is not believed: another UID would delete the history, and the old
// one again once the server is fixed.
func TestAWrongTargetKeepsItsHistory(t *testing.T) {
	t.Parallel()
	for name, uid := range map[string]any{"a number": 7, "too long": strings.Repeat("x", 200), "control characters": "a\nb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
				listed()
				before := agenttest.Object(t, w.platform, key)
				w.edit("web", func(e map[string]any) { e["uid"] = uid })
				listed()
				if o := agenttest.Object(t, w.platform, key); before.UID == "" || o.UID != before.UID || o.Hold == nil {
					t.Errorf("it is %q, held: %+v; it was %q", o.UID, o.Hold, before.UID)
				}
			})
		})
	}
}

func TestATargetWithoutANameIsReported(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		right := w.Create(agenttest.Workload{Name: "right", Replicas: 3})
		for _, name := range []string{"a/b", "..", "x.-shadow"} {
			w.create(name, 3, map[string]any{})
		}
		listed()
		agenttest.Object(t, w.platform, right)
		problem := w.platform.Problem()
		if !strings.HasPrefix(problem, "3 entries of the list can't be read: ") || !strings.Contains(problem, `name: must be 1 to 240 letters, digits and . _ -, not ending with .-shadow, is "a/b"`) {
			t.Errorf("got %q", problem)
		}
	})
}

func TestATargetThatIsThereTwiceIsHeld(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		other := w.Create(agenttest.Workload{Name: "web2", Replicas: 3})
		w.edit("web2", func(e map[string]any) { e["name"] = "web" })
		listed()
		if hold := agenttest.Object(t, w.platform, key).Hold; hold == nil || !strings.Contains(hold.Message, "the list contains it twice") {
			t.Errorf("held: %+v", hold)
		}
		if _, err := w.platform.Object(t.Context(), other, nil); !errors.Is(err, agent.ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}

// If a list can't be read, the previous one stays valid for a while.
func TestAListThatCantBeRead(t *testing.T) {
	t.Parallel()
	endless := 0
	for _, tt := range []struct {
		name           string
		mangle, tamper func(path string, r *reply)
		want           string
	}{
		{"a status", func(_ string, r *reply) { *r = *failed(500, "no database\nhere") }, nil, "it answered 500: no database here"},
		{"no JSON", func(_ string, r *reply) { r.body = []byte("<html>") }, nil, "the answer: "},
		{"another key of the page", func(_ string, r *reply) { r.body = []byte(`{"targets":[],"next":""}`) }, nil, `unknown field "next"`},
		{"a key twice", func(_ string, r *reply) { r.body = []byte(`{"targets":[],"targets":[]}`) }, nil, "duplicate field"},
		{"no targets", func(_ string, r *reply) { r.body = []byte(`{}`) }, nil, "targets: is required"},
		{"pages in a circle", func(_ string, r *reply) { r.body = []byte(`{"targets":[],"nextPageToken":"x"}`) }, nil, "repeats an earlier page"},
		{"pages without end", func(_ string, r *reply) {
			endless++
			r.body = fmt.Appendf(nil, `{"targets":[],"nextPageToken":"%d"}`, endless)
		}, nil, "more than 1000 pages"},
		{"a page that is too large", func(_ string, r *reply) { r.body = []byte(strings.Repeat(" ", 9<<20)) }, nil, "larger than 8388608 bytes"},
		{"too many targets", func(_ string, r *reply) {
			r.body = []byte(`{"targets":[1` + strings.Repeat(",1", 10_000) + `]}`)
		}, nil, "more than the 10000 targets"},
		{"not changed from what it never was", func(_ string, r *reply) { r.status, r.body = 304, nil; r.header.Set("ETag", `"x"`) }, nil, "it answered 304"},
		{"a body that was changed on the way", nil, func(_ string, r *reply) { r.body = []byte(`{"targets":[]}`) }, "the signature of its answer is wrong"},
		{"a status that was changed on the way", nil, func(_ string, r *reply) { r.status = 304; r.body = nil }, "the signature of its answer is wrong"},
		{"an ETag that was changed on the way", nil, func(_ string, r *reply) { r.header.Set("ETag", `"other"`) }, "the signature of its answer is wrong"},
		{"no signature", nil, func(_ string, r *reply) { r.header.Del(webhook.HeaderSignature) }, "without a signature"},
		{"a clock that is wrong", nil, func(_ string, r *reply) { r.header.Set(webhook.HeaderTimestamp, "1") }, "the signature of its answer is wrong"},
		{"a redirect", func(_ string, r *reply) { *r = *failed(302, "there"); r.header.Set("Location", "http://elsewhere/") }, nil, "it answered 302"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
				listed()
				w.edit("web", func(e map[string]any) { e["period"] = "30s" }) // so that it is sent
				set(w.world, &w.mangle, tt.mangle)
				set(w.world, &w.tamper, tt.tamper)
				listed()
				if got := w.logged(); !strings.Contains(got, tt.want) {
					t.Errorf("logged: %.1000s, want %q", got, tt.want)
				}
				agenttest.Object(t, w.platform, key)
				time.Sleep(2 * time.Minute)
				if got := w.logged(); strings.Contains(got, "not listed") {
					t.Errorf("logged again: %.1000s", got)
				}
				if _, err := w.platform.Object(t.Context(), key, nil); err == nil || errors.Is(err, agent.ErrGone) {
					t.Errorf("by a list of two minutes ago: %v", err)
				}
				set(w.world, &w.mangle, nil)
				set(w.world, &w.tamper, nil)
				listed()
				agenttest.Object(t, w.platform, key)
			})
		})
	}
}

// Values that the controller would take for an overflow, and old ones, are errors of their metrics,
// as from metric sources.
func TestAValueThatNothingShouldBeDecidedBy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ value, at, want string }{
		"a negative value":   {"-50", "", "the value is negative, which the controller would take for an overflow: report 0 or more"},
		"an overflow":        {"1e18", "", "the value is beyond"},
		"an old value":       {"50", "1999-12-31T12:00:00Z", "the value is of 1999-12-31T12:00:00Z, more than 5m0s ago"},
		"one to come":        {"50", "2000-01-01T02:00:00Z", "the value is of 2000-01-01T02:00:00Z, which is still to come"},
		"one a little ahead": {"50", "2000-01-01T00:00:59Z", ""},
		"a value of now":     {"50", "2000-01-01T00:00:00Z", ""},
		"one without a time": {"50", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				target := map[string]any{"type": "AverageValue", "averageValue": "10"}
				usage := map[string]any{"name": "cpu", "container": "app", "target": target}
				key := w.create("web", 3, map[string]any{"spec": map[string]any{"maxReplicas": 9, "metrics": []any{
					map[string]any{"type": "External", "external": map[string]any{"metric": map[string]any{"name": "queue"}, "target": target}},
					map[string]any{"type": "Pods", "pods": map[string]any{"metric": map[string]any{"name": "depth"}, "target": target}},
					map[string]any{"type": "ContainerResource", "containerResource": usage},
				}}})
				listed()
				at := ""
				if tt.at != "" {
					at = `,"timestamp":"` + tt.at + `"`
				}
				series := func(name string) string {
					return `{"metric":{"name":"` + name + `"},"value":"` + tt.value + `"` + at + `}`
				}
				pod := `{"describedObject":{"kind":"Pod","name":"a"},"metric":{"name":"depth"},"value":"` + tt.value + `"` + at + `}`
				used := `{"pod":"a","containers":[{"name":"app","usage":{"cpu":"` + tt.value + `"}}]` + at + `}`
				set(w.world, &w.mangle, func(path string, r *reply) {
					if path == "/observe" { // of which no metric of the spec is named unused
						r.body = []byte(`{"request":{"scale":{},"externalMetrics":[` + series("queue") + `,` + series("unused") + `],"customMetrics":[` + pod + `],"podMetrics":[` + used + `]}}`)
					}
				})
				seen := agenttest.Observe(t, w.platform, agenttest.Object(t, w.platform, key))
				got := seen.Request
				var errs []string
				for _, e := range got.GetMetricErrors() {
					if !strings.HasPrefix(e.GetMessage(), tt.want) {
						t.Errorf("%s: %s", e.GetMetric(), e.GetMessage())
					}
					errs = append(errs, e.GetMetric())
				}
				values, samples, want := 3, 1, "[]"
				switch {
				case name == "an old value", name == "one to come": // a pod with such usage has no sample
					values, samples, want = 0, 0, "[External:queue Pods:depth]"
				case tt.want != "":
					values, want = 0, "[External:queue Pods:depth ContainerResource:cpu:app]"
				}
				if n := len(got.GetExternalMetrics()) + len(got.GetCustomMetrics()); fmt.Sprint(errs) != want || n != values || len(got.GetPodMetrics()) != samples {
					t.Errorf("errors of %v, want %s; %d values, want %d; usage of %d pods, want %d", errs, want, n, values, len(got.GetPodMetrics()), samples)
				}
			})
		})
	}
}

func TestAnObservationThatCantBeRead(t *testing.T) {
	t.Parallel()
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	for name, tt := range map[string]struct{ body, want string }{
		"an unknown field":            {`{"request":{"scale":{}},"pods":[]}`, `unknown field "pods"`},
		"no request":                  {`{}`, "request: is required"},
		"a text":                      {`"{}"`, "the answer: must be an object, is of type string"},
		"a request that is a text":    {`{"request":"{}"}`, "request: must be an object, is of type string"},
		"a version that is a number":  {`{"request":{"scale":{}},"version":3}`, "the answer: version: must be a string, is of type number"},
		"no scale":                    {`{"request":{}}`, "request.scale: is required"},
		"an unknown field within":     {`{"request":{"scale":{},"podz":[]}}`, `"podz" is the agent's, or no field`},
		"a field that is the agent's": {`{"request":{"scale":{},"target":"clusters/other/namespaces/a/targets/b"}}`, "request: may only have"},
		"another spec":                {`{"request":{"scale":{},"spec":{"maxReplicas":1000}}}`, "request: may only have"},
		"a dry run":                   {`{"request":{"scale":{},"dryRun":true}}`, "request: may only have"},
		"too many pods":               {`{"request":{"scale":{},"pods":[` + many(5001, `{}`) + `]}}`, "request.pods: has 5001 pods"},
		"too many samples":            {`{"request":{"scale":{},"externalMetrics":[` + many(20001, `{}`) + `]}}`, "request: has 20001 samples"},
		"a day that is none":          {`{"request":{"scale":{},"externalMetrics":[{"timestamp":"2026-02-30T00:00:00Z"}]}}`, `request.externalMetrics[0].timestamp: must be a Timestamp, such as "2026-`},
		"a window that is a word":     {`{"request":{"scale":{},"podMetrics":[{"windowSeconds":"15s"}]}}`, "request.podMetrics[0].windowSeconds: must be a number"},
		"a key within that is none":   {`{"request":{"scale":{"replicas":3}}}`, "request.scale.replicas: there is no such key"},
		"a key within that is twice":  {`{"request":{"scale":{"specReplicas":3,"specReplicas":4}}}`, `duplicate field "scale.specReplicas"`},
		"a version that is too long":  {`{"request":{"scale":{}},"version":"` + strings.Repeat("x", 2000) + `"}`, "version: is longer"},
		"too much":                    {strings.Repeat(" ", 17<<20), "larger than 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
				listed()
				set(w.world, &w.mangle, func(path string, r *reply) {
					if path == "/observe" {
						r.body = []byte(tt.body)
					}
				})
				_, err := w.platform.Observe(t.Context(), agenttest.Object(t, w.platform, key))
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %.500v, want %q", err, tt.want)
				}
			})
		})
	}
}

// As in the API, a quantity may be a number.
func TestNumbersAreQuantities(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		set(w.world, &w.mangle, func(path string, r *reply) {
			if path == "/observe" {
				r.body = []byte(`{"request":{"scale":{"specReplicas":3},"externalMetrics":[{"metric":{"name":"queue"},"value":45.5}],
					"pods":[{"name":"a","containers":[{"name":"app","requests":{"cpu":0.5}}]}],
					"podMetrics":[{"pod":"a","windowSeconds":15.5,"containers":[{"name":"app","usage":{"cpu":2}}]}]}}`)
			}
		})
		got := agenttest.Observe(t, w.platform, agenttest.Object(t, w.platform, key)).Request
		if value, request, usage := got.GetExternalMetrics()[0].GetValue(), got.GetPods()[0].GetContainers()[0].GetRequests()["cpu"], got.GetPodMetrics()[0]; value != "45.5" || request != "0.5" || usage.GetContainers()[0].GetUsage()["cpu"] != "2" || usage.GetWindowSeconds() != 15.5 {
			t.Errorf("%s of the queue, %s requested, used %v", value, request, usage)
		}
	})
}

// A call with a lost answer is repeated once, and nothing is applied twice.
func TestACountIsAppliedOnce(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		o := agenttest.Object(t, w.platform, key)
		seen := agenttest.Observe(t, w.platform, o)
		w.recorded()
		lost := 1
		set(w.world, &w.tamper, func(path string, r *reply) {
			if path == "/apply" && lost > 0 {
				lost--
				*r = reply{http.StatusBadGateway, http.Header{}, []byte("proxy")}
			}
		})
		change := agent.Change{From: 3, To: 5, RecommendationID: "r1", Reason: "above target", Why: "above target; schedule \"office\" starts"}
		fatal.If(t, w.platform.Apply(t.Context(), o, seen, change))
		if calls := w.recorded(); len(calls) != 2 || w.Changes() != 1 || w.Replicas("web") != 5 {
			t.Errorf("%d calls, %d changes, %d replicas", len(calls), w.Changes(), w.Replicas("web"))
		} else if !bytes.Contains(calls[0].body, []byte(`"reason":"above target; schedule \"office\" starts"`)) {
			t.Errorf("what stages say is not in the reason: %s", calls[0].body)
		}
		// The decision is outdated.
		change.RecommendationID = "r2"
		if err := w.platform.Apply(t.Context(), o, seen, change); !errors.Is(err, agent.ErrMoved) {
			t.Errorf("got %v, want ErrMoved", err)
		}
	})
}

// A key is replaced without a failing call.
func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		second := strings.Repeat("f", 40)
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		for _, step := range []func(){
			func() { w.setKeys("k1", secret, "k2", second) },
			func() { w.writeKeys("k2:" + second + "\nk1:" + secret) },
			func() { w.setKeys("k2", second) },
			func() { w.writeKeys("k2:" + second) },
			func() { w.writeKeys("") }, // while it is being replaced
		} {
			step()
			if _, err := w.platform.Observe(t.Context(), agenttest.Object(t, w.platform, key)); err != nil {
				t.Error(err)
			}
		}
		w.writeKeys("k1:" + secret)
		if _, err := w.platform.Observe(t.Context(), agenttest.Object(t, w.platform, key)); err == nil || !strings.Contains(err.Error(), `does it have the key "k1"?`) {
			t.Errorf("got %v", err)
		}
	})
}

// setKeys sets the server's keys.
func (w *world) setKeys(pairs ...string) {
	var keys []webhook.Key
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, webhook.Key{Name: pairs[i], Secret: []byte(pairs[i+1])})
	}
	set(w, &w.keys, keys)
}

func TestWhereAServerMayBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for url, want := range map[string]string{
		"https://scheduler:8443/setpoint": "", "http://127.0.0.1:1": "", "http://[::1]:1/": "", "http://localhost": "",
		"http://scheduler:8080": "http to another machine", "http://127.0.0.1.example.com": "http to another machine",
		"": "must be https://", "ftp://x": "must be https://", "https://user:geheim@x/": "must have no user", "https://x/?a=b": "must have no user", "https://x/#a": "must have no user",
	} {
		_, err := webhook.Connect(webhook.Server{URL: url, KeyFile: w.keyFile})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, s := range []webhook.Server{
		{URL: "https://x", KeyFile: "/nowhere"}, {URL: "https://x", KeyFile: w.keyFile, CAFile: "/nowhere"},
		{URL: "https://x", KeyFile: w.keyFile, CAFile: w.keyFile}, {URL: "https://x", KeyFile: w.keyFile, CertFile: w.keyFile},
		{URL: "https://x", KeyFile: w.keyFile, CertFile: w.keyFile, KeyOfCertFile: w.keyFile},
		{URL: "http://127.0.0.1", KeyFile: w.keyFile, CAFile: w.keyFile}, {URL: "https://x", KeyFile: w.keyFile, Timeout: -1},
	} {
		if _, err := webhook.Connect(s); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

// The agent's sources answer a target's queries, in place of the observation's samples.
func TestQueriesAreAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		sources samples.Reader
		queries map[string]any
		own     bool   // observations have the metric, too
		held    string // why the target is, empty: it is not
		want    string // the error, empty: the source's value is there
	}{
		{"no sources", nil, map[string]any{"External:queue": map[string]any{"source": "a"}}, false, "there is no source \"a\"; none is configured (--sources-file)", ""},
		{"another metric", fixed(7), map[string]any{"External:other": map[string]any{"source": "a"}}, false, "metric.External:other: the spec has no such metric", ""},
		{"an unknown key", fixed(7), map[string]any{"External:queue": map[string]any{"sauce": "a"}}, false, "sauce: there is no such key", ""},
		{"no keys", fixed(7), map[string]any{"External:queue": "a"}, false, "metric.External:queue: must be a mapping of keys", ""},
		{"twice", fixed(7), map[string]any{"External:queue": map[string]any{"source": "a"}}, true, "", "has values of External:queue, but the target also has a query for it"},
		{"a value", fixed(7), map[string]any{"External:queue": map[string]any{"source": "a"}}, false, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &watched{world: newWorld(t)}
				w.options.Sources = tt.sources
				w.platform = webhook.New(w.client, w.options)
				key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
				w.edit("web", func(e map[string]any) { e["metric"] = tt.queries })
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- w.platform.Watch(ctx, func(agent.Key) {}) }()
				listed()
				if err := w.platform.Ready(); err != nil {
					t.Error(err)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				o := agenttest.Object(t, w.platform, key)
				if tt.held != "" {
					if o.Hold == nil || !strings.Contains(o.Hold.Message, tt.held) {
						t.Errorf("held: %+v, want %q", o.Hold, tt.held)
					}
					return
				}
				if o.Hold != nil {
					t.Fatalf("held: %+v", o.Hold)
				}
				set(w.world, &w.mangle, func(path string, r *reply) {
					if path == "/observe" && !tt.own {
						r.body = []byte(`{"request":{"scale":{"specReplicas":3}}}`)
					}
				})
				seen, err := w.platform.Observe(t.Context(), o)
				switch {
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("got %v, want %q", err, tt.want)
				case tt.want == "" && err != nil:
					t.Error(err)
				case tt.want == "" && (len(seen.Request.GetExternalMetrics()) != 1 || seen.Request.GetExternalMetrics()[0].GetValue() != "7"):
					t.Errorf("observed %v", seen.Request.GetExternalMetrics())
				}
			})
		})
	}
}

// fixed answers each query with one value.
type fixed int

func (fixed) Check([]samples.Metric) error { return nil }

func (f fixed) Read(_ context.Context, metrics []samples.Metric, _ []string) (out samples.Readings) {
	for _, m := range metrics {
		out.ExternalMetrics = append(out.ExternalMetrics, &setpointv1.ExternalMetric{Metric: m.Spec.GetExternal().GetMetric(), Value: fmt.Sprint(int(f))})
	}
	return out
}

// An unusable value is an error of its metric alone: those of the same name about another object, or of another
// selector, have their values.
func TestAnUnusableValueFailsItsOwnMetricAlone(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		ingress := func(name string) map[string]any {
			return map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": name}
		}
		queue := func(name string) map[string]any {
			return map[string]any{"name": "depth", "selector": map[string]any{"matchLabels": map[string]any{"queue": name}}}
		}
		var metrics []any
		for _, name := range []string{"old", "new"} {
			metrics = append(metrics,
				map[string]any{"type": "Object", "object": map[string]any{"metric": map[string]any{"name": "rps"}, "describedObject": ingress(name), "target": map[string]any{"type": "Value", "value": "10"}}},
				map[string]any{"type": "External", "external": map[string]any{"metric": queue(name), "target": map[string]any{"type": "AverageValue", "averageValue": "10"}}},
			)
		}
		key := w.create("web", 3, map[string]any{"spec": map[string]any{"maxReplicas": 9, "metrics": metrics}})
		for form, series := range map[string]func(name string) map[string]any{
			"by selectors": func(name string) map[string]any { return map[string]any{"metric": queue(name)} },
			"by labels": func(name string) map[string]any {
				return map[string]any{"metric": map[string]any{"name": "depth"}, "labels": map[string]any{"queue": name}}
			},
		} {
			request := map[string]any{"scale": map[string]any{}}
			var custom, external []any
			for name, at := range map[string]string{"old": "1999-12-31T12:00:00Z", "new": "2000-01-01T00:00:00Z"} {
				one := series(name)
				one["value"], one["timestamp"] = "50", at
				external = append(external, one)
				custom = append(custom, map[string]any{"describedObject": ingress(name), "metric": map[string]any{"name": "rps"}, "value": "50", "timestamp": at})
			}
			request["customMetrics"], request["externalMetrics"] = custom, external
			body, err := json.Marshal(map[string]any{"request": request})
			fatal.If(t, err)
			set(w.world, &w.mangle, func(path string, r *reply) {
				if path == "/observe" {
					r.body = body
				}
			})
			listed()
			seen := agenttest.Observe(t, w.platform, agenttest.Object(t, w.platform, key))
			got := seen.Request
			if len(got.GetCustomMetrics()) != 1 || got.GetCustomMetrics()[0].GetDescribedObject().GetName() != "new" || len(got.GetExternalMetrics()) != 1 ||
				got.GetExternalMetrics()[0].GetTimestamp().AsTime().Year() != 2000 {
				t.Errorf("%s: the values are %v and %v", form, got.GetCustomMetrics(), got.GetExternalMetrics())
			}
			failed := got.GetMetricErrors()
			if len(failed) != 2 || failed[0].GetDescribedObject().GetName() != "old" || failed[1].GetSelector().GetMatchLabels()["queue"] != "old" {
				t.Errorf("%s: the errors are %v", form, failed)
			}
		}
	})
}
