package transport

import (
	"net/http"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestRequestsAreNamedAsInRBAC(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "/api/v1/pods?limit=500", "list pods"},
		{"GET", "/api/v1/pods?allowWatchBookmarks=true&watch=true", "watch pods"},
		{"GET", "/api/v1/namespaces/shop/pods", "list pods"},
		{"GET", "/api/v1/namespaces/shop", "get namespaces"},
		{"POST", "/api/v1/namespaces/shop/events", "create events"},
		{"PATCH", "/api/v1/namespaces/shop/events/web.1", "patch events"},
		{"GET", "/apis/apps/v1/namespaces/shop/deployments/web/scale", "get deployments.apps/scale"},
		{"PUT", "/apis/apps/v1/namespaces/shop/deployments/web/scale", "update deployments.apps/scale"},
		{"PUT", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web/status", "update horizontalpodautoscalers.autoscaling/status"},
		{"GET", "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app%3Dweb", "list pods.metrics.k8s.io"},
		{"GET", "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/%2A/qps", "get custom.metrics.k8s.io"},
		{"GET", "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue", "get external.metrics.k8s.io"},
		{"GET", "/apis", "get discovery"},
		{"GET", "/apis/apps/v1", "get discovery"},
		{"GET", "/api/v1", "get discovery"},
		{"GET", "/k8s/clusters/c-1/api/v1/pods", "list pods"}, // behind a proxy of several clusters
		{"GET", "/k8s/clusters/c-1/apis/apps/v1", "get discovery"},
		{"GET", "/api/v1/namespaces/apis/pods", "list pods"},
	} {
		req, err := http.NewRequest(tt.method, "https://cluster"+tt.url, nil)
		fatal.If(t, err)
		verb, resource := describe(req)
		if got := verb + " " + resource; got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
}
