package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// roundTripper is one request's outcome.
type roundTripper func() error

func (f roundTripper) RoundTrip(*http.Request) (*http.Response, error) {
	if err := f(); err != nil {
		return nil, err
	}
	return &http.Response{}, nil
}

// An outage is logged once requests fail for its time without an answer between them: a request
// that hangs alone is none.
func TestOutageIsLoggedOfRequestsThatFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.InfoLevel)
		outage := NewOutage(zap.New(core))
		asks := func(path string, d time.Duration, err error) {
			_, _ = outage.Wrap(roundTripper(func() error { time.Sleep(d); return err })).RoundTrip(&http.Request{URL: &url.URL{Path: path}})
		}
		takes := func(d time.Duration, err error) { asks("/apis/apps/v1/deployments", d, err) }
		lines := func(want int) {
			t.Helper()
			if got := logged.Len(); got != want {
				t.Errorf("%d lines, want %d: %v", got, want, logged.All())
			}
		}
		broken := errors.New("connection reset")

		done := make(chan struct{})
		go func() {
			defer close(done)
			takes(time.Minute, broken)
		}()
		for range 60 {
			takes(999*time.Millisecond, nil)
		}
		<-done
		lines(0)
		if level := outage.Level(zapcore.WarnLevel, errors.New("a conflict")); level != zapcore.DebugLevel {
			t.Errorf("level %v right after a failure", level)
		}

		time.Sleep(outageAfter)
		takes(0, broken)
		takes(0, broken)
		lines(1)
		takes(0, nil)
		lines(2)

		// An adapter of metrics that hangs, or a webhook of a workload, is no outage of the API server; one that is not reached is.
		for _, api := range []string{
			"metrics.k8s.io/v1beta1/namespaces/shop/pods", "custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/qps", "external.metrics.k8s.io/v1beta1/namespaces/shop/queue",
			"apps/v1/namespaces/shop/deployments/web/scale",
		} {
			asks("/apis/"+api, 10*time.Second, fmt.Errorf("Get: %w", context.DeadlineExceeded))
			lines(2)
			asks("/apis/"+api, time.Millisecond, broken)
			takes(0, nil)
		}
		lines(2)

		// So is a server that answers with statuses, for as long as nothing else is read; a resource that fails alone is none,
		// nor are adapters, the discovery of their APIs, or writes.
		fails := func(method, path string, status int) {
			_, _ = outage.Wrap(answers(status)).RoundTrip(&http.Request{Method: method, URL: &url.URL{Path: path}})
			time.Sleep(outageAfter)
		}
		for _, code := range []int{500, 503, 504, 429} {
			for range 60 {
				fails("GET", "/api/v1/pods", code)
				fails("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", code)
				fails("GET", "/apis/metrics.k8s.io/v1beta1", code)
				fails("PUT", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web/status", code)
			}
			lines(2)
			if level := outage.Level(zapcore.WarnLevel, errors.New("a webhook fails")); level != zapcore.WarnLevel {
				t.Errorf("level %v while one resource fails", level)
			}
			takes(0, nil)
		}
		for range 60 {
			fails("GET", "/api/v1/pods", 503)
			fails("GET", "/apis/autoscaling/v2/horizontalpodautoscalers", 503)
			fails("PUT", "/apis/apps/v1/namespaces/shop/deployments/web/scale", 503)
		}
		lines(3)
		if level := outage.Level(zapcore.WarnLevel, errors.New("not read")); level != zapcore.DebugLevel {
			t.Errorf("level %v while all fail", level)
		}
		for _, code := range []int{200, 403, 404, 409, 410, 422} {
			fails("GET", "/api/v1/pods", 503)
			fails("GET", "/api/v1/namespaces/kube-system", code)
		}
		lines(4)
		if after := logged.All()[3].ContextMap()["after"]; after != 181*time.Second {
			t.Errorf("the end says after %v", after)
		}
		fails("GET", "/readyz", 500) // as an agent that starts asks
		fails("GET", "/readyz", 500)
		lines(5)
		takes(0, nil)
		lines(6)
		logged.TakeAll()

		// All that hang say so when the first of them gives up.
		takes(outageAfter, broken)
		lines(1)
	})
}
