package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A definition that is upgraded, and an adapter, may cease to serve the version that discovery had.
func TestAVersionThatIsServedNoMore(t *testing.T) {
	t.Parallel()
	jobs := schema.GroupResource{Group: "example.com", Resource: "jobs"}
	metric := cluster.Metric{Name: "rps", Selector: labels.Everything()}
	for name, ask := range map[string]func(context.Context, *Client) error{
		"read of a scale": func(ctx context.Context, c *Client) error {
			_, err := c.Get(ctx, jobs, "shop", "web")
			return err
		},
		"write of a scale": func(ctx context.Context, c *Client) error {
			_, err := c.Update(ctx, jobs, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
			return err
		},
		"metric of pods": func(ctx context.Context, c *Client) error {
			_, err := c.PodsMetric(ctx, "shop", labels.Everything(), metric)
			return err
		},
		"metric of an object": func(ctx context.Context, c *Client) error {
			_, err := c.ObjectMetric(ctx, "shop", cluster.Object{Kind: schema.GroupKind{Group: "example.com", Kind: "Job"}, Name: "web"}, metric)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var upgraded atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served := map[string]string{"example.com": "v1alpha1", "custom.metrics.k8s.io": "v1beta1"}
				if upgraded.Load() {
					served = map[string]string{"example.com": "v1", "custom.metrics.k8s.io": "v1beta2"}
				}
				serveVersions(w, r, served)
			}))
			t.Cleanup(server.Close)
			c, err := New(&rest.Config{Host: server.URL})
			fatal.If(t, err)
			now := time.Now()
			c.discovered.now = func() time.Time { return now }
			fatal.If(t, ask(t.Context(), c))
			upgraded.Store(true)
			if err := ask(t.Context(), c); !apierrors.IsNotFound(err) {
				t.Errorf("got %v while discovery is young", err)
			}
			now = now.Add(missAge)
			if err := ask(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
}

// serveVersions answers as an API server that serves one version of each group.
func serveVersions(w http.ResponseWriter, r *http.Request, served map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(what any) { _ = json.NewEncoder(w).Encode(what) } // the client sees it
	group, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	version, path, _ := strings.Cut(rest, "/")
	switch {
	case r.URL.Path == "/apis":
		list := metav1.APIGroupList{}
		for name, version := range served {
			v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		answer(list)
	case r.URL.Path == "/api":
		answer(metav1.APIVersions{Versions: []string{"v1"}})
	case r.URL.Path == "/api/v1":
		answer(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}}})
	case version == "" || served[group] != version:
		http.NotFound(w, r)
	case path == "":
		answer(metav1.APIResourceList{GroupVersion: group + "/" + version, APIResources: []metav1.APIResource{
			{Name: "jobs", Kind: "Job", Namespaced: true}, {Name: "jobs/scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Namespaced: true},
		}})
	case group == "example.com":
		answer(autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}})
	default:
		answer(customv1beta2.MetricValueList{TypeMeta: metav1.TypeMeta{APIVersion: group + "/" + version, Kind: "MetricValueList"}})
	}
}
