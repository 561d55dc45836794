package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// A server that restarted, or another replica of it, may not know that it carried a call out
// whose answer was lost: the count tells.
func TestACountWhoseAnswerWasLostIsLookedAt(t *testing.T) {
	t.Parallel()
	lose := func(r *reply) { *r = reply{http.StatusBadGateway, http.Header{}, []byte("proxy")} }
	for _, tt := range []struct {
		name string
		// tamper is what becomes of an answer, by how many of the path there were before, and mangle what the
		// server itself answers instead.
		tamper func(w *watched, path string, before int, r *reply)
		mangle func(w *watched, path string, r *reply)
		want   error // nil: it is applied
		text   string
	}{
		{"the server forgot", func(w *watched, path string, before int, r *reply) {
			if path == "/apply" && before == 0 {
				clear(w.applied)
				lose(r)
			}
		}, nil, nil, ""},
		{"both answers are lost", func(_ *watched, path string, _ int, r *reply) {
			if path == "/apply" {
				lose(r)
			}
		}, nil, nil, ""},
		{"both calls are lost", func(w *watched, path string, _ int, r *reply) {
			if path == "/apply" {
				w.targets["web"].replicas = 3
				lose(r)
			}
		}, nil, nil, "apply: it answered 502 Bad Gateway without a signature"},
		{"others changed it meanwhile", func(w *watched, path string, before int, r *reply) {
			if path == "/apply" && before == 0 {
				clear(w.applied)
				w.targets["web"].replicas = 4
				lose(r)
			}
		}, nil, agent.ErrMoved, ""},
		{"nobody can tell", func(_ *watched, _ string, _ int, r *reply) { lose(r) }, nil, agent.ErrMoved, ""},
		{"it fails after the change", nil, func(_ *watched, path string, r *reply) {
			if path == "/apply" {
				*r = *failed(http.StatusInternalServerError, "no database")
			}
		}, nil, ""},
		{"it says too much", func(_ *watched, path string, _ int, r *reply) {
			if path == "/apply" {
				r.body = bytes.Repeat([]byte(" "), 1<<17)
			}
		}, nil, nil, ""},
		{"it fails before the change", nil, func(w *watched, path string, r *reply) {
			if path == "/apply" {
				w.targets["web"].replicas = 3
				*r = *failed(http.StatusServiceUnavailable, "no database")
			}
		}, nil, "apply: it answered 503: no database"},
		{"it fails with 200", nil, func(_ *watched, path string, r *reply) {
			if path == "/apply" {
				*r = *said(http.StatusOK, webhook.Failure{Error: "quota exceeded"})
			}
		}, nil, "apply: it answered 200: quota exceeded"},
		{"it fails with 200, and says more", nil, func(_ *watched, path string, r *reply) {
			if path == "/apply" {
				*r = *said(http.StatusOK, map[string]any{"error": "quota exceeded", "code": 7})
			}
		}, nil, "apply: it answered 200: quota exceeded"},
		{"it fails, and nobody can tell", nil, func(_ *watched, _ string, r *reply) {
			*r = *failed(http.StatusInternalServerError, "no database")
		}, agent.ErrMoved, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			watch(t, func(t *testing.T, w *watched) {
				key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
				listed()
				o := agenttest.Object(t, w.platform, key)
				seen := agenttest.Observe(t, w.platform, o)
				before := map[string]int{}
				if tt.mangle != nil {
					set(w.world, &w.mangle, func(path string, r *reply) { tt.mangle(w, path, r) })
				} else {
					set(w.world, &w.tamper, func(path string, r *reply) {
						tt.tamper(w, path, before[path], r)
						before[path]++
					})
				}
				err := w.platform.Apply(t.Context(), o, seen, agent.Change{From: 3, To: 5, RecommendationID: "r1"})
				switch {
				case tt.text != "":
					if err == nil || !strings.Contains(err.Error(), tt.text) {
						t.Errorf("got %v, want %q", err, tt.text)
					}
				case !errors.Is(err, tt.want):
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// Decisions of old versions of the controller start from the replicas that there are, as while some wait for a place; the count is
// another one.
func TestTheCurrentCountIsTheOneThatWasObserved(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		o := agenttest.Object(t, w.platform, key)
		err := w.platform.Apply(t.Context(), o, agenttest.Observe(t, w.platform, o), agent.Change{From: 2, To: 5, RecommendationID: "r1"})
		if n := w.Replicas("web"); err != nil || n != 5 {
			t.Errorf("%d replicas, %v", n, err)
		}
	})
}

// A target that is listed and not found is held, and the list is not asked for because of it
// again and again.
func TestATargetThatIsListedAndNotFound(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, w *watched) {
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		listed()
		w.recorded()
		missing := func(path string, r *reply) {
			if path == "/observe" {
				*r = *failed(http.StatusNotFound, "no such thing")
			}
		}
		set(w.world, &w.mangle, missing)
		lists := func() (n int) {
			for range 60 {
				_, err := w.platform.Observe(t.Context(), agenttest.Object(t, w.platform, key))
				var held *agent.HoldError
				if !errors.As(err, &held) || held.Hold.Reason != agent.ReasonNotFound || !strings.Contains(held.Hold.Message, "it answered 404: no such thing") {
					t.Fatalf("got %v", err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
			for _, c := range w.recorded() {
				if c.path == "/targets" {
					n++
				}
			}
			return n
		}
		if n := lists(); n < 6 || n > 8 { // every ten seconds, and once
			t.Errorf("%d lists in a minute", n)
		}
		// One that was found again may be lost again.
		set(w.world, &w.mangle, nil)
		if _, err := w.platform.Observe(t.Context(), agenttest.Object(t, w.platform, key)); err != nil {
			t.Error(err)
		}
		set(w.world, &w.mangle, missing)
		w.recorded()
		if _, err := w.platform.Observe(t.Context(), agenttest.Object(t, w.platform, key)); err == nil {
			t.Error("it was found")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if calls := w.recorded(); len(calls) < 2 || calls[1].path != "/targets" {
			t.Errorf("it was not looked for in the list: %v", calls)
		}
	})
}

// Cpu from a source and memory from the server are usage of the same containers.
func TestQueriesAndObservationsAreOfOneUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, container, want string }{
		{"the same containers", "app", `{"pod":"web-0","timestamp":"2000-01-01T00:00:00Z","windowSeconds":30,"containers":[{"name":"app","usage":{"cpu":"250m","memory":"10Mi"}}]}`},
		{"others", "other", `podMetrics: pod "web-0" has usage of the containers ["app"], but the queries return usage of ["other"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			now := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
			prom := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				fmt.Fprint(rw, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"web-0","container":"`+tt.container+`"},"value":[946684800,"0.25"]}]}}`)
			}))
			t.Cleanup(prom.Close)
			config, err := samples.ParseConfig([]byte("sources: {prom: {prometheus: {url: '" + prom.URL + "'}}}"))
			fatal.If(t, err)
			sources, err := samples.New(config, samples.Options{})
			fatal.If(t, err)
			t.Cleanup(sources.Close)
			w.options.Sources = sources
			key := w.create("web", 1, map[string]any{
				"spec": map[string]any{"maxReplicas": 5, "metrics": []any{
					map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", "target": map[string]any{"type": "AverageValue", "averageValue": "1"}}},
					map[string]any{"type": "Resource", "resource": map[string]any{"name": "memory", "target": map[string]any{"type": "AverageValue", "averageValue": "1Gi"}}},
				}},
				"metric": map[string]any{"Resource:cpu": map[string]any{"source": "prom", "query": "usage", "podLabel": "pod", "containerLabel": "container", "window": "30s"}},
			})
			set(w, &w.mangle, func(path string, r *reply) {
				if path == "/observe" {
					r.body = []byte(`{"request":{"scale":{"specReplicas":1},"pods":[{"name":"web-0"}],"podMetrics":[{"pod":"web-0","timestamp":"` + now +
						`","windowSeconds":15,"containers":[{"name":"app","usage":{"memory":"10Mi"}}]}]}}`)
				}
			})
			p := webhook.New(w.client, w.options)
			o := listedOnce(t, p, key)
			if o.Hold != nil {
				t.Fatalf("held: %+v", o.Hold)
			}
			seen, err := p.Observe(t.Context(), o)
			var got string
			switch {
			case err != nil:
				got = err.Error()
			case len(seen.Request.GetPodMetrics()) == 1:
				text, err := protojson.Marshal(seen.Request.GetPodMetrics()[0])
				fatal.If(t, err)
				got = strings.ReplaceAll(string(text), ", ", ",") // spaces are put in at random
				got = strings.ReplaceAll(got, ": ", ":")
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Files that can't be read any more are an error in the log, once, and what they held counts.
func TestFilesThatCantBeReadAreLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	w := newWorld(t)
	client := connect(t, w, func(s *webhook.Server) { s.Log = zap.New(core) })
	p := webhook.New(client, w.options)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
	o := listedOnce(t, p, key)
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { w.writeKeys("k1:short\n") }, "file not read, keeping its previous content: key file: " + w.keyFile + ": line 1: the secret"},
		{func() {}, ""},
		{func() { fatal.If(t, os.Remove(w.keyFile)) }, "file not read, keeping its previous content: key file: stat " + w.keyFile},
		{func() { w.writeKeys("k1:" + secret) }, "file reloaded: "},
	} {
		step.do()
		if _, err := p.Observe(t.Context(), o); err != nil {
			t.Error(err)
		}
		var got []string
		for _, line := range logs.TakeAll() {
			text, _ := line.ContextMap()["error"].(string)
			got = append(got, line.Message+": "+text)
		}
		if text := strings.Join(got, "\n"); len(got) > 1 || step.want == "" && text != "" || !strings.HasPrefix(text, step.want) || strings.Contains(text, secret) {
			t.Errorf("logged %q, want %q", text, step.want)
		}
	}
}

// Authorities are replaced without a restart; while their file is wrong those before it count.
func TestAuthoritiesAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := testpki.New("scheduler"), testpki.New("scheduler")
	server := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	var current atomic.Pointer[tls.Certificate]
	current.Store(new(first.TLS()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return current.Load(), nil
	}}
	go func() { _ = server.Serve(tls.NewListener(listener, config)) }()
	t.Cleanup(func() { _ = server.Close() })
	file := filepath.Join(t.TempDir(), "ca.pem")
	fatal.If(t, os.WriteFile(file, first.CertPEM(), 0o600))
	core, logs := observer.New(zap.InfoLevel)
	client, err := webhook.Connect(webhook.Server{URL: "https://" + listener.Addr().String() + "/setpoint", KeyFile: w.keyFile, CAFile: file, Log: zap.New(core)})
	fatal.If(t, err)
	t.Cleanup(client.Close)
	p := webhook.New(client, w.options)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
	o := listedOnce(t, p, key)
	observe := func() error {
		client.Close() // idle connections
		_, err := p.Observe(t.Context(), o)
		return err
	}
	fatal.If(t, observe())
	current.Store(new(second.TLS()))
	if err := observe(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with a certificate of another authority: %v", err)
	}
	fatal.If(t, os.WriteFile(file, []byte("being replaced"), 0o600))
	if err := observe(); err == nil {
		t.Error("without authorities that are trusted: no error")
	}
	if got := logs.TakeAll(); len(got) != 1 || got[0].Message != "file not read, keeping its previous content" {
		t.Errorf("logged %v", got)
	}
	fatal.If(t, os.WriteFile(file, second.CertPEM(), 0o600))
	if err := observe(); err != nil {
		t.Error(err)
	}
}

// connect makes another client of a world.
func connect(t testing.TB, w *world, change func(*webhook.Server)) *webhook.Client {
	t.Helper()
	s := webhook.Server{URL: "http://127.0.0.1:8080/setpoint/", KeyFile: w.keyFile, DialContext: w.pipe.DialContext}
	change(&s)
	client, err := webhook.Connect(s)
	fatal.If(t, err)
	t.Cleanup(client.Close)
	return client
}

// listedOnce returns an object of a platform that is watched until it was told of.
func listedOnce(t *testing.T, p *webhook.Platform, key agent.Key) *agent.Object {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan agent.Key, 100), make(chan error, 1)
	go func() { ended <- p.Watch(ctx, func(key agent.Key) { told <- key }) }()
	for key != <-told {
	}
	cancel()
	fatal.If(t, <-ended)
	o, err := p.Object(t.Context(), key, nil)
	fatal.If(t, err)
	return o
}

// The fleet stands in a target's entry, and a target with a wrong one is not decided alone.
func TestFleetOfTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ fleet, hold string }{
		{"clusters/f/namespaces/shop/targets/web", ""},
		{"web", "its entry in the list is invalid: fleet: must be the whole name of a fleet, clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, not \"web\""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
			w.edit("web", func(entry map[string]any) { entry["fleet"] = tt.fleet })
			o := listedOnce(t, webhook.New(w.client, w.options), key)
			if tt.hold == "" && (o.Hold != nil || o.Fleet != tt.fleet) || tt.hold != "" && (o.Hold == nil || o.Hold.Message != tt.hold) {
				t.Errorf("%s: %q, held by %+v", tt.fleet, o.Fleet, o.Hold)
			}
		})
	}
}

// Stages stand in a target's entry, and what is wrong in them holds the target. Proposals are observed.
func TestStagesOfTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stages map[string]any
		hold   string
	}{
		{map[string]any{"windowThroughFailures": true}, ""},
		{map[string]any{"guards": map[string]any{"reversal": 3}}, "its entry in the list is invalid: stages.guards.reversal: there is no such key; did you mean reversals?"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
			w.edit("web", func(entry map[string]any) { entry["stages"] = tt.stages })
			p := webhook.New(w.client, w.options)
			o := listedOnce(t, p, key)
			if tt.hold == "" && (o.Hold != nil || !o.Stages.GetWindowThroughFailures()) || tt.hold != "" && (o.Hold == nil || o.Hold.Message != tt.hold) {
				t.Errorf("%v: %v, held by %+v", tt.stages, o.Stages, o.Hold)
			}
			if tt.hold != "" {
				return
			}
			set(w, &w.mangle, func(path string, r *reply) {
				if path == "/observe" {
					r.body = []byte(`{"request":{"scale":{"specReplicas":3},"proposals":[{"name":"forecast","replicas":5,"role":"VOTER","expireTime":"2026-11-22T10:56:00Z"}]}}`)
				}
			})
			if seen, err := p.Observe(t.Context(), o); err != nil || seen.Request.GetProposals()[0].GetReplicas() != 5 {
				t.Errorf("observed %v, %v", seen, err)
			}
		})
	}
}
