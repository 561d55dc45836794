package transport

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// answers is one request's answer.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Status: http.StatusText(int(a))}, nil
}

// What must be watched and is refused for a while is logged once, and told until it is listed or watched again. Without
// the right to watch, lists go on.
func TestRefusalsAreToldOnce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		attempts string // "VERB CODE", two seconds apart
		problem  bool   // after them
		lines    int
	}{
		{"the rights come a little later", "watch 403, list 403, watch 403, list 403, watch 200", false, 0},
		{"the rights do not come", "watch 403, list 403, watch 403, list 403, watch 403, list 403, list 403, list 403", true, 1},
		{"they come at last", "watch 403, list 403, watch 403, list 403, watch 403, list 403, list 403, list 403, watch 200", false, 2},
		{"they come for lists", "list 403, list 403, list 403, list 403, list 403, list 403, list 200", false, 2},
		{"the definition is deleted", "watch 200, watch 404, list 404, list 404, list 404, list 404, list 404, list 404", true, 1},
		{"no right to watch", "watch 403, list 200, watch 403, list 200, watch 403, list 200, watch 403, list 200", false, 1},
		{"the server is busy", "list 429, list 500, list 503, list 410, list 429, list 429, list 429, list 503", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zapcore.InfoLevel)
				r := NewRefusals(zap.New(core), nil, "pods")
				asks := func(path, verb string, code int) {
					req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}
					if verb == "watch" {
						req.URL.RawQuery = "watch=true"
					}
					if _, err := r.Wrap(answers(code)).RoundTrip(req); err != nil {
						t.Error(err)
					}
				}
				for attempt := range strings.SplitSeq(tt.attempts, ", ") {
					verb, code, _ := strings.Cut(attempt, " ")
					n := map[string]int{"200": 200, "403": 403, "404": 404, "410": 410, "429": 429, "500": 500, "503": 503}[code]
					asks("/api/v1/namespaces/shop/pods", verb, n)
					asks("/api/v1/namespaces/shop/pods/web-0", "list", 403) // one pod
					asks("/apis/apps/v1/deployments", "list", 403)          // optional
					time.Sleep(2 * time.Second)
				}
				if got := r.Problem(); (got != "") != tt.problem || tt.problem && !strings.Contains(got, "/api/v1/namespaces/shop/pods since 2000-01-01T00:00:0") {
					t.Errorf("the problem is %q", got)
				}
				if logged.Len() != tt.lines {
					t.Errorf("%d lines, want %d: %v", logged.Len(), tt.lines, logged.All())
				}
			})
		})
	}
}

// A namespace without the right to list something is told of and is its own matter while another one is read: its objects are
// out of date from the first refusal until some seconds after the end of one that lasted.
func TestOneNamespaceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRefusals(zap.NewNop(), []string{"shop", "billing"}, "pods", "autoscalers.autoscaling.setpoint.dev")
		list := func(namespace, group, resource string, code int) {
			req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: group + "/v1/namespaces/" + namespace + "/" + resource}}
			if _, err := r.Wrap(answers(code)).RoundTrip(req); err != nil {
				t.Error(err)
			}
		}
		want := func(when string, refused int, problem bool, unread ...string) {
			t.Helper()
			if got := r.Namespaces(); got != refused {
				t.Errorf("%s: %d namespaces are refused, want %d", when, got, refused)
			}
			if got := r.Problem(); (got != "") != problem {
				t.Errorf("%s: the problem is %q", when, got)
			}
			for _, namespace := range []string{"shop", "billing"} {
				err := r.Unread(namespace)
				if (err != nil) != slices.Contains(unread, namespace) {
					t.Errorf("%s: %s: %v", when, namespace, err)
				}
				if level := NewOutage(zap.NewNop()).Level(zapcore.ErrorLevel, err); err != nil && level != zapcore.DebugLevel {
					t.Errorf("%s: each object of %s logs at level %s", when, namespace, level)
				}
			}
		}
		const own = "/apis/autoscaling.setpoint.dev"
		want("at first", 0, false)
		list("shop", "/api", "pods", 403)
		want("at once", 0, false, "shop")
		list("shop", "/api", "pods", 200)
		want("after a short one", 0, false)
		list("shop", "/api", "pods", 403)
		list("shop", own, "autoscalers", 401)
		time.Sleep(refusedAfter)
		want("after a while", 1, false, "shop")
		list("billing", "/api", "pods", 403)
		time.Sleep(refusedAfter)
		want("both", 2, true, "shop", "billing")
		list("shop", "/api", "pods", 200)
		time.Sleep(distrust)
		want("one list is answered", 2, true, "shop", "billing")
		list("shop", own, "autoscalers", 200)
		want("the other one, too", 1, false, "shop", "billing")
		time.Sleep(distrust)
		want("and is decoded", 1, false, "billing")
		list("billing", "/api", "pods", 200)
		time.Sleep(distrust)
		want("at the end", 0, false)
		// Without its definition a kind has no objects: those of other kinds go on.
		list("shop", own, "autoscalers", 404)
		time.Sleep(refusedAfter)
		want("without the definition", 0, true)
		list("shop", own, "autoscalers", 200)

		r = NewRefusals(zap.NewNop(), nil, "pods")
		if _, err := r.Wrap(answers(403)).RoundTrip(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/api/v1/pods"}}); err != nil {
			t.Error(err)
		}
		time.Sleep(refusedAfter)
		want("a list of all", 1, true, "shop", "billing")
	})
}

// An informer without the right settles after a while, and has the objects once the right is there.
func TestAnInformerWithoutTheRightSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allowed atomic.Bool
		began := time.Now()
		informer := NewSettled(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				if allowed.Load() {
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}}, nil
				}
				if time.Since(began) < time.Minute {
					return nil, errors.New("busy") // which is waited for
				}
				return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right"))
			},
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				if options.SendInitialEvents != nil { // as older servers answer
					return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
				}
				return watch.NewFake(), nil
			},
		}, &corev1.Pod{}, 0, cache.Indexers{})
		fatal.If(t, informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}))
		var added atomic.Int32
		registration, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added.Add(1) }}, cache.HandlerOptions{})
		fatal.If(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		defer running.Wait()
		defer cancel()
		time.Sleep(time.Minute)
		if informer.HasSynced() || registration.HasSynced() {
			t.Error("it counts as synced although nothing was refused")
		}
		time.Sleep(time.Minute + refusedAfter) // an attempt, and the time after it
		if !informer.HasSynced() || !registration.HasSynced() || added.Load() != 0 {
			t.Error("it does not settle")
		}
		allowed.Store(true)
		time.Sleep(time.Minute)
		if !informer.HasSynced() || !registration.HasSynced() || added.Load() != 1 {
			t.Errorf("%d objects once it is allowed", added.Load())
		}
	})
}
