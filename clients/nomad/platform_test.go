package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

func TestBehaviour(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(t *testing.T) agenttest.World { return newWorld(t) }, testserver.Recommendations)
}

// run runs an agent with a reconcile every 10 s until the test ends.
func run(t *testing.T, w *world, options agent.Options) *agenttest.Service {
	t.Helper()
	service := agenttest.NewService(testserver.Recommendations(t))
	options.Cluster, options.Period, options.FirstWait, options.Log = "demo", agenttest.Period, -1, w.options.Log
	driver, err := agent.NewDriver(w.Platform(), agent.Service{Calls: service}, options, agent.DriverOptions{})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return service
}

// reconciles waits for n periods.
func reconciles(n int) {
	time.Sleep(time.Duration(n)*(agenttest.Period+agenttest.Period/8) + time.Second)
	synctest.Wait()
}

// queue is a policy for the world's source; the load is 10 per allocation.
func queue(job, more string) string {
	return fmt.Sprintf("metric: {queue: {source: queues, query: %s, average: 10}}\nbehavior: {scaleUp: %s, scaleDown: %s}\n%s", job, atOnce, atOnce, more)
}

// A deployment that starts between read and write makes Nomad refuse the count. The agent waits
// then, too, and the service counts no change.
func TestADeploymentThatBeginsMeanwhileIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register(job{name: "web", count: 2, policy: queue("web", ""), update: true})
		w.Want("web", 2)
		service := run(t, w, agent.Options{})
		reconciles(1)
		w.Want("web", 5)
		w.BeforeWrite(func() {
			w.Scale("web", 3)
			time.Sleep(10 * time.Millisecond)
		})
		reconciles(1)
		if n := w.Replicas("web"); n != 3 {
			t.Errorf("%d replicas, want those of others", n)
		}
		if reports := service.Reports(); len(reports) != 1 || reports[0].GetOutcome() != "FAILED" {
			t.Errorf("reported: %v", reports)
		}
		reconciles(2)
		if n := w.Replicas("web"); n != 5 {
			t.Errorf("in the end: %d replicas, want 5", n)
		}
	})
}

// A scaling resets the health of all until its deployment ends. Allocations that keep running
// stay ready, as remembered.
func TestAScaleThatResetsHealthMakesNoAllocationUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.DeploymentTime = 25 * time.Second
		w.register(job{name: "web", count: 4, policy: queue("web", ""), update: true})
		w.Want("web", 4)
		service := run(t, w, agent.Options{})
		reconciles(4)
		w.Want("web", 6)
		reconciles(1)
		if g := w.group("web"); g.Desired != 6 || g.Healthy != 0 {
			t.Fatalf("Nomad has %+v, which shows nothing", g)
		}
		asked := len(service.Asked())
		reconciles(4)
		for _, q := range service.Asked()[asked:] {
			ready := 0
			for _, pod := range q.Request.GetPods() {
				if pod.GetReady().GetStatus() == "True" {
					ready++
				}
			}
			if ready < 4 {
				t.Errorf("%d allocations are ready, want the 4 that keep running", ready)
			}
		}
		if len(service.Asked()) == asked {
			t.Error("nothing was asked")
		}
	})
}

// What a person reads of a change has its cause and its figures.
func TestACountIsWrittenWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		w.Want("web", 7)
		service := run(t, w, agent.Options{})
		reconciles(1)
		events := w.group("web").Events
		if len(events) != 1 {
			t.Fatalf("%d events, want 1: %+v", len(events), events)
		}
		e := events[0]
		id := service.Reports()[0].GetRecommendationId()
		if !strings.HasPrefix(e.Message, "4 → 7: ") || e.Count == nil || *e.Count != 7 || e.Error || e.Meta["setpoint.recommendation"] != id || e.Meta["setpoint.from"] != 4.0 || e.Meta["setpoint.to"] != 7.0 || e.Meta["setpoint.reason"] == "" {
			t.Errorf("got %+v, recommendation %s", e, id)
		}
		if want := "4 → 7: queue 17.5 (target 10); external metric queue above target"; e.Message != want {
			t.Errorf("the message is %q, want %q", e.Message, want)
		}
		w.Want("web", 100)
		reconciles(5)
		if e := w.group("web").Events[0]; !strings.Contains(e.Message, "(target 10); at its maximum of ") {
			t.Errorf("the message %q does not say what limits the count", e.Message)
		}
	})
}

// A shadow writes its decisions as events without a count, each once; a dry run of the agent
// writes nothing.
func TestShadowsWriteEventsWithoutACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4, Shadow: true})
		w.Want("web", 7)
		run(t, w, agent.Options{})
		reconciles(5)
		events := w.group("web").Events
		if len(events) != 1 || events[0].Count != nil || events[0].Error || !strings.HasPrefix(events[0].Message, "shadow: 4 → 7: ") || events[0].Meta["setpoint.shadow"] != true {
			t.Fatalf("got %+v", events)
		}
		w.Want("web", 8)
		reconciles(7)
		if events = w.group("web").Events; len(events) != 2 || !strings.HasPrefix(events[0].Message, "shadow: 4 → 8: ") {
			t.Errorf("got %+v", events)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		w.Create(agenttest.Workload{Name: "own", Replicas: 4, Shadow: true})
		w.register(job{name: "wrong", count: 2, policy: "cup: 60"})
		w.Want("web", 7)
		w.Want("own", 7)
		service := run(t, w, agent.Options{Shadow: true})
		reconciles(5)
		if events := slices.Concat(w.group("web").Events, w.group("own").Events, w.group("wrong").Events); len(events) != 0 {
			t.Errorf("a dry run has written %+v", events)
		}
		// No group's name ends like that of a shadow: web.web_shadow is the group web_shadow.
		for _, asked := range service.Asked() {
			if target := asked.Request.GetTarget(); !strings.HasSuffix(target, ".-shadow") {
				t.Fatalf("a shadow is called %s", target)
			}
		}
	})
}

// An event that could not be written is written later, and logged once.
func TestFailedEventsAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register(job{name: "wrong", count: 2, policy: "cup: 60"})
		w.Create(agenttest.Workload{Name: "shadow", Replicas: 4, Shadow: true})
		w.Want("shadow", 7)
		events := func() int { return len(w.group("wrong").Events) + len(w.group("shadow").Events) }
		for _, fails := range []string{http.MethodPut, http.MethodGet} {
			w.failing(func(r *http.Request) (int, string) {
				if r.Method == fails && strings.HasSuffix(r.URL.Path, "/scale") && r.Header.Get("X-Nomad-Token") != "" {
					return http.StatusInternalServerError, "No cluster leader"
				}
				return 0, ""
			})
			if fails == http.MethodPut {
				w.client = w.connect(nomad.Config{Token: "token:agent", Registerer: nil})
				run(t, w, agent.Options{})
			}
			time.Sleep(3 * time.Minute)
			if n := events(); n != 0 && fails == http.MethodPut {
				t.Fatalf("%d events", n)
			}
		}
		if n := w.logged.FilterMessage("event not written").Len(); n < 2 || n > 4 {
			t.Errorf("the log says %d times that events were not written", n)
		}
		w.failing(nil)
		time.Sleep(3 * time.Minute)
		if n := events(); n != 2 {
			t.Errorf("%d events, want one of each", n)
		}
	})
}

// Servers before 1.8.2 cause a warning, in the log once and with each group; servers of other
// regions don't. Without the capability to read their versions there is one log line.
func TestServersThatDoNotCompare(t *testing.T) {
	for want, builds := range map[string][]string{
		"":                         {"1.8.2", "1.9.0-dev", "2.0.6+ent", "nonsense"},
		"server-2.global is 1.8.1": {"1.8.2", "1.8.1"},
		"server-1.global is 1.7.7-rc.1+ent, server-2.global is 0.12.9": {"1.7.7-rc.1+ent", "0.12.9"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, p := start(t, func(w *world) {
				w.server.Builds = builds
				w.register(job{name: "web", count: 2, policy: "cpu: 60"})
			})
			time.Sleep(time.Hour)
			warning := agenttest.Object(t, p, keyOf("web")).Warning
			logged := w.logged.FilterMessage("Nomad's servers").Len()
			if (want == "") != (warning == "") || !strings.Contains(warning, want) || logged > 1 || (logged == 1) != (want != "") {
				t.Errorf("%v: got %q, %d lines", builds, warning, logged)
			}
			w.server.Replace("1.8.2")
			time.Sleep(11 * time.Minute)
			if warning := agenttest.Object(t, p, keyOf("web")).Warning; warning != "" {
				t.Errorf("when they have been replaced: %q", warning)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register(job{name: "web", count: 2, policy: "cpu: 60"})
		w.server.UseACL()
		w.server.SetToken("token:agent", `namespace "*" { policy = "scale" }`)
		w.client = w.connect(nomad.Config{Token: "token:agent"})
		p := w.adapter()
		w.watch(p)
		time.Sleep(time.Hour)
		lines := w.logged.FilterMessage("Nomad's servers").All()
		if warning := agenttest.Object(t, p, keyOf("web")).Warning; warning != "" || len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), "node read") {
			t.Errorf("got %q, lines %v", warning, lines)
		}
	})
	// Whichever region's agent is asked, it names the servers of all.
	client := nomadtest.Client(t, &nomadtest.Server{Builds: []string{"1.8.1"}})
	for region, want := range map[string]string{"": "server-1.global is 1.8.1", "elsewhere": "server-1.elsewhere is 0.9.0"} {
		if warning, err := nomad.OldServers(t.Context(), client, region); err != nil || !strings.Contains(warning, "("+want+")") {
			t.Errorf("region %q: %q, %v, want %q", region, warning, err, want)
		}
	}
}

// A wrong policy is reported once where users look, even across restarts of the agent.
func TestAWrongPolicyIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register(job{name: "web", count: 2, policy: "cup: 60"})
		w.register(job{name: "elsewhere", count: 2, policy: "metric: {q: {source: nowhere, query: x, average: 10}}"})
		w.register(job{name: "theirs", count: 2, policy: "cpu: 60", change: func(j *api.Job) {
			j.TaskGroups[0].Scaling.Policy["check"] = []any{map[string]any{"cpu": []any{map[string]any{}}}}
		}})
		w.register(job{name: "refused", count: 2, policy: "cpu: 60\nbehavior: {scaleDown: {stabilizationWindowSeconds: 9999}}"})
		for range 2 {
			run(t, w, agent.Options{})
			reconciles(5)
		}
		for name, want := range map[string]string{
			"refused": "RecommendationRefused: the recommender refused to decide: spec.behavior.scaleDown.stabilizationWindowSeconds: ",
			"web":     "InvalidObject: setpoint.cup: there is no such key; did you mean cpu?", "elsewhere": "InvalidObject: setpoint.metric.q.source: there is no such source",
			"theirs": "ConflictingAutoscaler: the policy has check blocks as well, on which the Nomad Autoscaler acts",
		} {
			events := w.group(name).Events
			if len(events) != 1 || !events[0].Error || events[0].Count != nil || !strings.HasPrefix(events[0].Message, want) {
				t.Errorf("%s: got %+v, want %s", name, events, want)
			}
		}
	})
}

func TestJobsWhoseCountMeansNothingAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := start(t, func(w *world) {
			w.register(job{name: "periodic", count: 1, policy: "cpu: 60", change: func(j *api.Job) { j.Periodic = &api.PeriodicConfig{} }})
			w.register(job{name: "parameterized", count: 1, policy: "cpu: 60", change: func(j *api.Job) { j.ParameterizedJob = &api.ParameterizedJobConfig{} }})
			w.register(job{name: "batch", count: 1, policy: "cpu: 60", change: func(j *api.Job) { j.Type = new("batch") }})
			w.register(job{name: "sysbatch", count: 1, policy: "cpu: 60", change: func(j *api.Job) { j.Type = new("sysbatch") }})
		})
		for name, why := range map[string]string{
			"periodic": "periodic", "parameterized": "parameterized", "batch": "of type batch: Nomad would run its finished allocations again", "sysbatch": "of type sysbatch",
		} {
			if hold := agenttest.Object(t, p, keyOf(name)).Hold; hold == nil || hold.Reason != nomad.ReasonNotScalable || !strings.Contains(hold.Message, "because it is "+why) {
				t.Errorf("%s: %+v", name, hold)
			}
		}
	})
}

// A stopped job's policy stays, disabled: there is nothing to scale. A job with count 0 is
// dead, not stopped: it is scaled up again.
func TestStoppedJobsAndThoseAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register(job{name: "zero", count: 1, policy: queue("zero", ""), min: 0, max: 5})
		w.register(job{name: "stopped", count: 2, policy: queue("stopped", "")})
		w.Want("zero", 0)
		w.Want("stopped", 4)
		if _, _, err := w.own.Jobs().Deregister("stopped", false, nil); err != nil {
			t.Fatal(err)
		}
		service := run(t, w, agent.Options{})
		reconciles(2)
		if n := w.Replicas("zero"); n != 0 {
			t.Fatalf("%d replicas, want 0", n)
		}
		w.Want("zero", 3)
		reconciles(1)
		if n := w.Replicas("zero"); n != 3 {
			t.Errorf("%d replicas, want 3", n)
		}
		for _, q := range service.Asked() {
			if strings.HasSuffix(q.Request.GetTarget(), "/stopped.web") {
				t.Fatal("asked about a stopped job")
			}
		}
	})
}

// agentRights are the permissions that deploy/ grants to the agent.
var agentRights = func() string {
	text, err := os.ReadFile("../../deploy/nomad/agent.policy.hcl")
	if err != nil {
		panic(err)
	}
	return string(text)
}()

// Without the capability the list of policies of all namespaces is empty, without an error. A
// token that loses its capability must not look like deleted jobs: their histories would be
// deleted.
func TestAnEmptyListIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		w.server.UseACL()
		w.server.SetToken("token:agent", "node { policy = \"read\" }")
		w.client = w.connect(nomad.Config{Token: "token:agent"})
		w.own = managed(w)
		service := run(t, w, agent.Options{})
		reconciles(1)
		told := false
		for _, line := range w.logged.FilterMessageSnippet("objects are not watched").All() {
			told = told || strings.Contains(fmt.Sprint(line.ContextMap()["error"]), "the capability list-scaling-policies on every namespace")
		}
		if !told {
			t.Errorf("of an empty list the log has %v", w.logged.All())
		}
		w.server.SetToken("token:agent", agentRights)
		time.Sleep(time.Minute) // a change of permissions wakes no query
		reconciles(1)
		w.Want("web", 6)
		reconciles(1)
		if n := w.Replicas("web"); n != 6 {
			t.Fatalf("with its rights: %d replicas, want 6", n)
		}
		for _, rights := range []string{"node { policy = \"read\" }", `namespace "*" { capabilities = ["read-scaling-policy"] }`, `namespace "default" { policy = "deny" }`} {
			w.server.SetToken("token:agent", rights)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if n := len(service.Deletes()); n > 0 {
				t.Fatalf("with %s %d targets were forgotten", rights, n)
			}
		}
		w.server.SetToken("token:agent", agentRights)
		w.Want("web", 8)
		time.Sleep(5 * time.Minute)
		if n := w.Replicas("web"); n != 8 {
			t.Errorf("with its rights again: %d replicas, want 8", n)
		}
		if _, _, err := w.own.Jobs().Deregister("web", true, nil); err != nil {
			t.Fatal(err)
		}
		reconciles(2)
		if n := len(service.Deletes()); n != 1 {
			t.Errorf("%d targets were forgotten of a job that went, want 1", n)
		}
	})
}

// managed is a client with the management token.
func managed(w *world) *api.Client {
	own := nomadtest.Client(w.t, w.server)
	own.SetSecretID(nomadtest.Management)
	return own
}

// The documented permissions are sufficient, and each of them is necessary.
func TestTheLeastRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		w.Create(agenttest.Workload{Name: "shadow", Replicas: 4, Shadow: true})
		w.register(job{name: "cpu", count: 2, policy: "cpu: 60", update: true})
		w.register(job{name: "wrong", count: 2, policy: "cup: 60"})
		w.server.UseACL()
		w.server.SetToken("token:agent", agentRights)
		w.client, w.own = w.connect(nomad.Config{Token: "token:agent"}), managed(w)
		w.Want("web", 6)
		w.Want("shadow", 6)
		var refused atomic.Int64
		w.failing(func(r *http.Request) (int, string) {
			probe := &noted{discard{}, http.StatusOK}
			if r.Method == http.MethodGet && !r.URL.Query().Has("index") {
				w.server.ServeHTTP(probe, r)
			}
			if probe.status == http.StatusForbidden {
				refused.Add(1)
			}
			return 0, ""
		})
		run(t, w, agent.Options{})
		reconciles(4)
		if w.Replicas("web") != 6 || len(w.group("shadow").Events) != 1 || len(w.group("wrong").Events) != 1 || refused.Load() > 0 {
			t.Errorf("%d requests refused, %d replicas, events %v and %v", refused.Load(), w.Replicas("web"), w.group("shadow").Events, w.group("wrong").Events)
		}
	})
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// While Nomad fails, no count changes and nothing is forgotten. Afterwards the agent works as
// before.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(*http.Request) (int, string){
		"too many connections": func(*http.Request) (int, string) {
			return http.StatusTooManyRequests, "Your IP is issuing too many concurrent connections, please rate limit your calls\n"
		},
		"the leader is lost": func(*http.Request) (int, string) { return http.StatusInternalServerError, "No cluster leader" },
		"the server is gone": func(*http.Request) (int, string) { panic(http.ErrAbortHandler) },
		"the token is revoked": func(*http.Request) (int, string) {
			return http.StatusForbidden, "Permission denied"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.Create(agenttest.Workload{Name: "web", Replicas: 4})
				service := run(t, w, agent.Options{})
				reconciles(2)
				var requests atomic.Int64
				w.failing(func(r *http.Request) (int, string) {
					requests.Add(1)
					return fault(r)
				})
				w.Want("web", 8)
				began := time.Now()
				reconciles(20)
				// A reconcile has two reads and is retried after 1, 2, 4 … s; the watch as
				// well.
				if n, most := requests.Load(), int64(3*time.Since(began)/agenttest.Period+20); n > most {
					t.Errorf("%d requests in %s, want at most %d", n, time.Since(began), most)
				}
				if n := w.Replicas("web"); n != 4 || len(service.Deletes()) > 0 {
					t.Errorf("%d replicas, forgotten %v", n, service.Deletes())
				}
				w.failing(nil)
				reconciles(3)
				if n := w.Replicas("web"); n != 8 {
					t.Errorf("when it is over: %d replicas, want 8", n)
				}
			})
		})
	}
}

// A blocking query that never returns, as over a connection dropped by a firewall, times out.
func TestAQueryThatIsLostIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		w.failing(func(r *http.Request) (int, string) {
			if r.URL.Query().Has("index") {
				<-r.Context().Done()
			}
			return 0, ""
		})
		began := time.Now()
		err := w.adapter().Watch(t.Context(), func(agent.Key) {})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 50*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// The list returns for any policy, possibly in a tight loop: there is a pause between queries.
func TestWatchesThatWakeForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		var queries atomic.Int64
		w.failing(func(r *http.Request) (int, string) {
			if query := r.URL.Query(); r.URL.Path == "/v1/scaling/policies" {
				queries.Add(1)
				query.Del("index") // return at once
				r.URL.RawQuery = query.Encode()
			}
			return 0, ""
		})
		told := w.watch(w.adapter())
		time.Sleep(10 * time.Second)
		if n := queries.Load(); n < 10 || n > 101 {
			t.Errorf("%d queries in 10 s", n)
		}
		if got := told.take(); got != "[web.web]" {
			t.Errorf("told %s", got)
		}
	})
}

func TestKeysOfGroups(t *testing.T) {
	t.Parallel()
	seen := map[agent.Key]nomad.Group{}
	for _, tt := range []struct{ job, group, want string }{
		{"web", "web", "web.web"}, {"etl/load-1", "a_b", "etl.-2fload-1.a_b"}, {"a.b", "c", "a.-2eb.c"}, {"a", "b.c", "a.b.-2ec"},
		{"a", "-2eb", "a..-2d2eb"}, {"a.-2eb", "", "a.-2e-2eb."}, {"größe", "", "gr.-c3.-b6.-c3.-9fe."}, {"", "", "."},
		{strings.Repeat("a", 300), "b", ""}, {strings.Repeat("a", 300), "c", ""}, {strings.Repeat(".", 80), "", ""},
	} {
		g := nomad.Group{Namespace: "default", Job: tt.job, Name: tt.group}
		key := nomad.KeyOf(g)
		if other, ok := seen[key]; ok {
			t.Errorf("%v and %v are both %s", g, other, key)
		}
		seen[key] = g
		if tt.want != "" && key.Name != tt.want || len(key.Name) > 240 || key.Kind != nomad.Kind || key.Namespace != "default" {
			t.Errorf("%v: got %s, want %s", g, key.Name, tt.want)
		}
	}
}

// Who registers a job again after its count was read may have opted the group out with it.
func TestAGroupThatOptsOutMeanwhileIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.Job){
		"out":      func(j *api.Job) { j.TaskGroups[0].Scaling.Policy = map[string]any{"cooldown": "1m"} },
		"off":      func(j *api.Job) { j.TaskGroups[0].Scaling.Enabled = new(false) },
		"no block": func(j *api.Job) { j.TaskGroups[0].Scaling = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.Create(agenttest.Workload{Name: "web", Replicas: 4})
				run(t, w, agent.Options{})
				reconciles(1)
				// The list of policies is late.
				w.failing(func(r *http.Request) (int, string) {
					if strings.HasPrefix(r.URL.Path, "/v1/scaling/") {
						return http.StatusInternalServerError, "no leader"
					}
					return 0, ""
				})
				w.BeforeWrite(func() { w.register(job{name: "web", count: 5, policy: "cpu: 60", change: change}) })
				w.Want("web", 8)
				reconciles(4)
				if n := w.Replicas("web"); n != 5 {
					t.Errorf("%d allocations, want the 5 that were registered", n)
				}
			})
		})
	}
}

// A server or a leader that is lost may have made the change that it did not answer: the count tells.
func TestACountWhoseAnswerIsLostIsLookedAt(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse bool // nothing is written
		after  func(w *world)
		want   error
	}{
		"it is written":   {false, func(*world) {}, nil},
		"it is not":       {true, func(*world) {}, errors.New("rpc error: EOF")},
		"nobody can tell": {false, func(w *world) { w.FailReads(errors.New("No cluster leader")) }, agent.ErrMoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := start(t, func(w *world) { w.register(job{name: "web", count: 4, policy: queue("web", "")}) })
				o := agenttest.Object(t, p, keyOf("web"))
				seen := agenttest.Observe(t, p, o)
				w.failing(func(r *http.Request) (int, string) {
					if r.Method == http.MethodGet {
						return 0, ""
					}
					if !tt.refuse {
						w.server.ServeHTTP(httptest.NewRecorder(), r)
					}
					tt.after(w)
					return http.StatusInternalServerError, "rpc error: EOF"
				})
				err := p.Apply(t.Context(), o, seen, agent.Change{From: 4, To: 7})
				if (err == nil) != (tt.want == nil) || errors.Is(err, agent.ErrMoved) != errors.Is(tt.want, agent.ErrMoved) || tt.want != nil && !strings.Contains(err.Error(), "rpc error: EOF") {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}
