//go:build linux

package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// newStormyWorld is newWorld with a proxy that makes faults between the agent and the API server.
func newStormyWorld(t *testing.T) (*world, *kubetest.Proxy) {
	t.Helper()
	c := kubetest.SharedWithoutNative(t)
	p := newPlace(t, c, hpas, "storms")
	c.Deployment(t, p.namespace, app, 6)
	cpu(300, 6).do(p, app)
	p.awaitReplicas(app, 6)
	w := &world{place: p, sizes: p.watchAll(t, deployments, wantedReplicas)}
	p.add(app, basic(app))
	proxy, account := c.Proxy(t), c.Account(t, p.namespace, "agent")
	c.Grant(t, account, leastRules(t)...)
	w.agent = newAgentAs(t, proxy.Behind(t, account), p.namespace, service.Start(t), "--source=hpa")
	w.agent.Start()
	w.agent.AwaitReady()
	p.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
	return w, proxy
}

// logged is how often the agent has logged a text.
func (a *agent) logged(text string) int {
	return strings.Count(a.Log(), text)
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func writesScale(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/scale")
}

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"storm","code":%d}`, reason, code)
}

// While the API server, or a proxy before it, answers with nothing but errors nothing is scaled; the log has that once, and its end.
// Then the count is right after one write.
func TestStormsOfErrors(t *testing.T) {
	t.Parallel()
	w, proxy := newStormyWorld(t)
	want := []string{"6"}
	for i, fault := range []kubetest.Fault{
		func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, "TooManyRequests")
		},
		func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			refuse(w, http.StatusInternalServerError, "InternalError")
		},
		func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		},
	} {
		mark := w.c.Mark(t)
		proxy.Faults(fault)
		proxy.Cut()
		replicas := int32(14 - 8*(i%2))
		cpu(int64(50*replicas), replicas).do(w.place, app)
		await(t, "the outage is logged", func() string {
			if w.agent.logged("the API server does not answer") == i+1 {
				return ""
			}
			return "it is not"
		})
		time.Sleep(3 * syncPeriod)
		proxy.Faults(nil)
		w.recovers(t, replicas)
		w.awaitReconciles(t, 2)
		if n := w.scaleWrites(t, w.agent, mark); n != 1 {
			t.Errorf("%d: %d writes of the scale, want 1", i, n)
		}
		if began, ended := w.agent.logged("the API server does not answer"), w.agent.logged("the API server answers again"); began != i+1 || ended != i+1 {
			t.Errorf("%d: logged %d times, and %d times that it is over", i, began, ended)
		}
		want = append(want, fmt.Sprint(replicas))
	}
	w.went(t, want...)
}

// Watches that end at once, connections that are reset and lists that are cut off lead to no wrong count, and to no storm of lists.
func TestStormsOfWatches(t *testing.T) {
	t.Parallel()
	w, proxy := newStormyWorld(t)
	want := []string{"6"}
	list := "GET /api/v1/namespaces/" + w.namespace + "/pods"
	for i, fault := range []kubetest.Fault{
		func(w http.ResponseWriter, r *http.Request, next http.Handler) { // 410 Gone
			switch {
			case !isWatch(r):
				next.ServeHTTP(w, r)
			case r.URL.Query().Get("sendInitialEvents") != "":
				refuse(w, http.StatusUnprocessableEntity, "Invalid")
			default:
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}}`)
			}
		},
		func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasPrefix(r.Method+" "+r.URL.Path, list) {
				w = &cutOff{ResponseWriter: w, left: 2000}
			}
			next.ServeHTTP(w, r)
		},
		nil, // connections are reset
	} {
		mark, lists, began := w.c.Mark(t), proxy.Seen(list), time.Now()
		replicas := int32(14 - 8*(i%2))
		proxy.Faults(fault)
		proxy.Cut()
		cpu(int64(50*replicas), 6).do(w.place, app)
		for time.Since(began) < 10*time.Second {
			if fault == nil {
				proxy.Cut()
			}
			time.Sleep(300 * time.Millisecond)
		}
		// Each of 0.8, 1.6, 3.2 … seconds there is a list and a watch of the same path.
		if n := proxy.Seen(list) - lists; n > 20 {
			t.Errorf("%d: %d lists and watches of pods in ten seconds", i, n)
		}
		proxy.Faults(nil)
		w.recovers(t, replicas)
		w.awaitReconciles(t, 2)
		if n := w.scaleWrites(t, w.agent, mark); n != 1 {
			t.Errorf("%d: %d writes of the scale, want 1", i, n)
		}
		want = append(want, fmt.Sprint(replicas))
	}
	w.went(t, want...)
}

// cutOff ends an answer in its middle.
type cutOff struct {
	http.ResponseWriter
	left int
}

// Unwrap lets http.ResponseController find Flush.
func (c *cutOff) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutOff) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// Conflicting writes are tried as often as by the built-in controller, five times in a reconcile. A write whose answer is lost
// counts once, so that a policy of two pods adds two.
func TestStormsOfWrites(t *testing.T) {
	t.Parallel()
	w, proxy := newStormyWorld(t)
	var writes atomic.Int64
	proxy.Faults(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !writesScale(r) {
			next.ServeHTTP(w, r)
			return
		}
		writes.Add(1)
		refuse(w, http.StatusConflict, "Conflict")
	})
	before := w.agent.Metric("setpoint_agent_reconciles_total")
	w.patch(app, `{"spec":{"behavior":{"scaleUp":{"policies":[{"type":"Pods","value":2,"periodSeconds":600}]}}}}`)
	cpu(700, 14).do(w.place, app)
	w.awaitCondition(app, "AbleToScale=False/FailedUpdateScale")
	w.awaitReconciles(t, 3)
	n, reconciles := writes.Load(), w.agent.Metric("setpoint_agent_reconciles_total")-before
	if n < 5 || float64(n) > 5*(reconciles+1) { // one may be in flight
		t.Errorf("%d writes in %v reconciles", n, reconciles)
	}

	mark := w.c.Mark(t)
	proxy.Faults(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !writesScale(r) {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&lost{header: http.Header{}}, r)
		if writes.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		refuse(w, http.StatusGatewayTimeout, "Timeout")
	})
	w.awaitCondition(app, "ScalingLimited=True/ScaleUpLimit")
	w.awaitReplicas(app, 8)
	w.awaitReconciles(t, 4)
	if n := w.scaleWrites(t, w.agent, mark); n != 1 {
		t.Errorf("%d writes of the scale, want 1", n)
	}
	w.went(t, "6", "8")
}

// lost is an answer that nobody gets.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header         { return l.header }
func (l *lost) Write(b []byte) (int, error) { return len(b), nil }
func (l *lost) WriteHeader(int)             {}
