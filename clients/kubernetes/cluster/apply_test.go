package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/scalecache"
)

const webScale = "shop/deployments/web"

func TestApply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// between the reading and the writing
		meanwhile func(*apiServer)
		writes    int
		check     func(t *testing.T, updated *autoscalingv1.Scale, err error)
	}{
		{"writes once with the version that was read", nil, 1, wantReplicas},
		{"writes again when only something else changed", func(s *apiServer) {
			s.change(webScale, func(scale *autoscalingv1.Scale) { scale.Status.Replicas++ })
		}, 2, wantReplicas},
		{"writes nothing when somebody else scaled", func(s *apiServer) {
			s.change(webScale, func(scale *autoscalingv1.Scale) { scale.Spec.Replicas = 8 })
		}, 1, func(t *testing.T, _ *autoscalingv1.Scale, err error) {
			var moved *cluster.MovedError
			if !errors.As(err, &moved) || moved.Was != 3 || moved.Now != 8 ||
				err.Error() != `spec.replicas of deployments.apps "web" was changed from 3 to 8 since it was read` {
				t.Errorf("got %v", err)
			}
		}},
		{"writes nothing when it was made again with that count", func(s *apiServer) {
			s.change(webScale, func(scale *autoscalingv1.Scale) { scale.UID = "another" })
		}, 1, func(t *testing.T, _ *autoscalingv1.Scale, err error) {
			var moved *cluster.MovedError
			if !errors.As(err, &moved) || err.Error() != `deployments.apps "web" was deleted and created again since it was read` {
				t.Errorf("got %v", err)
			}
		}},
		{"gives up after five conflicts", func(s *apiServer) {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				writeStatus(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
				return true
			})
		}, 5, func(t *testing.T, _ *autoscalingv1.Scale, err error) {
			if !apierrors.IsConflict(err) || err.Error() != "the object has been modified" {
				t.Errorf("got %v", err)
			}
		}},
		{"does not repeat what is forbidden", func(s *apiServer) {
			s.refuse("/scale", http.StatusForbidden, metav1.StatusReasonForbidden, "no")
		}, 1, func(t *testing.T, _ *autoscalingv1.Scale, err error) {
			if !apierrors.IsForbidden(err) {
				t.Errorf("got %v", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := shop(t)
			reader := readerOf(t, server)
			before := snapshot(t, reader, autoscalerOf(t, cpuMetric))
			if test.meanwhile != nil {
				test.meanwhile(server)
			}
			server.asked("")
			updated, err := reader.Apply(t.Context(), before, 5)
			test.check(t, updated, err)
			if before.Scale.Spec.Replicas != 3 {
				t.Error("the snapshot was changed")
			}
			writes := 0
			for _, request := range server.asked("/apis/apps/v1/namespaces/shop/deployments/web/scale") {
				if strings.HasPrefix(request, "PUT ") {
					writes++
				}
			}
			if writes != test.writes {
				t.Errorf("wrote %d times, want %d", writes, test.writes)
			}
			if count := reader.Counts()[cluster.ScaleUpdate]; int(count.Requests) != test.writes {
				t.Errorf("counted %+v", count)
			}
		})
	}
}

func wantReplicas(t *testing.T, updated *autoscalingv1.Scale, err error) {
	t.Helper()
	if err != nil || updated.Spec.Replicas != 5 {
		t.Errorf("got %v, %v", updated, err)
	}
}

func TestApplyOfASnapshotWithoutScale(t *testing.T) {
	t.Parallel()
	server := shop(t)
	reader := readerOf(t, server)
	autoscaler := autoscalerOf(t, cpuMetric)
	for _, test := range []struct {
		snapshot kubernetes.Snapshot
		want     error
	}{
		{kubernetes.Snapshot{}, kubernetes.ErrNoAutoscaler},
		{kubernetes.Snapshot{Autoscaler: autoscaler}, kubernetes.ErrNoScale},
	} {
		if _, err := reader.Apply(t.Context(), &test.snapshot, 5); err != test.want {
			t.Errorf("got %v, want %v", err, test.want)
		}
	}
	// A snapshot that another made has no resource: it is found by its kind.
	before := snapshot(t, reader, autoscaler)
	before.Resource = schema.GroupResource{}
	if _, err := readerOf(t, server).Apply(t.Context(), before, 5); err != nil {
		t.Error(err)
	}
	autoscaler.Spec.ScaleTargetRef.Kind = "Widget"
	if _, err := readerOf(t, server).Apply(t.Context(), before, 5); err == nil || err.Error() != `no matches for kind "Widget" in group "apps"` {
		t.Errorf("got %v", err)
	}
}

// The bounds of an autoscaler act without a selector, also right after its target became one of another kind.
func TestApplyToAnotherTarget(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.change(webScale, func(scale *autoscalingv1.Scale) {
		other := scale.DeepCopy()
		other.UID, other.Status.Selector = "other", ""
		server.scales["shop/statefulsets/web"] = other
	})
	reader := readerOf(t, server)
	autoscaler := autoscalerOf(t, cpuMetric)
	snapshot(t, reader, autoscaler)
	autoscaler.Spec.ScaleTargetRef.Kind = "StatefulSet"
	if updated, err := reader.Apply(t.Context(), snapshot(t, reader, autoscaler), 5); err != nil || updated.UID != "other" || updated.Spec.Replicas != 5 {
		t.Errorf("wrote %v, %v", updated, err)
	}
}

// The count is read again after a write without an answer, through the cache: the write dropped it there.
func TestReplicas(t *testing.T) {
	t.Parallel()
	server := shop(t)
	reader := cachingReader(t, server)
	before := snapshot(t, reader, autoscalerOf(t, cpuMetric))
	server.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			server.change(webScale, func(scale *autoscalingv1.Scale) { scale.Spec.Replicas = 5 })
			writeStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: request timed out")
		}
		return r.Method == http.MethodPut
	})
	if _, err := reader.Apply(t.Context(), before, 5); !apierrors.IsInternalError(err) {
		t.Fatalf("got %v", err)
	}
	if now, err := reader.Replicas(t.Context(), before); now != 5 || err != nil {
		t.Errorf("got %d, %v", now, err)
	}
	before.Scale = before.Scale.DeepCopy()
	before.Scale.UID = "another"
	if now, err := reader.Replicas(t.Context(), before); err == nil || err.Error() != `deployments.apps "web" was deleted and created again since it was read` {
		t.Errorf("got %d, %v of another object", now, err)
	}
}

// The context also ends the wait between two attempts.
func TestApplyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := shop(t)
	reader := readerOf(t, server)
	before := snapshot(t, reader, autoscalerOf(t, cpuMetric))
	ctx, cancel := context.WithCancel(t.Context())
	server.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			writeStatus(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
			return true
		}
		if strings.HasSuffix(r.URL.Path, "/scale") {
			cancel()
		}
		return false
	})
	if _, err := reader.Apply(ctx, before, 5); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
}

// sameVersion is a watch that sees no change.
type sameVersion struct{}

func (sameVersion) ResourceVersion(schema.GroupResource, string, string) (string, bool) {
	return "1", true
}

// cachingReader reads scales through the cache, of which none is outdated.
func cachingReader(t *testing.T, server *apiServer) *cluster.Reader {
	t.Helper()
	clients := server.clients(t)
	return cluster.NewReader(cluster.Sources{
		Mapper: clients.Mapper(), Scales: scalecache.New(clients, sameVersion{}), Pods: clients, Metrics: clients,
	}, cluster.Options{})
}

// After a conflict the cache must not return the refused version again.
func TestApplyThroughTheCache(t *testing.T) {
	t.Parallel()
	server := shop(t)
	reader := cachingReader(t, server)
	snapshot(t, reader, autoscalerOf(t, cpuMetric))
	before := snapshot(t, reader, autoscalerOf(t, cpuMetric))
	if count := reader.Counts()[cluster.ScaleGet]; count != (cluster.Count{Requests: 1, Saved: 1}) {
		t.Errorf("got %+v", count)
	}
	server.change(webScale, func(scale *autoscalingv1.Scale) { scale.Status.Replicas = 9 })
	updated, err := reader.Apply(t.Context(), before, 5)
	if err != nil || updated.Spec.Replicas != 5 || updated.Status.Replicas != 9 {
		t.Fatalf("got %v, %v", updated, err)
	}
	if after := snapshot(t, reader, autoscalerOf(t, cpuMetric)); after.Scale.Spec.Replicas != 5 {
		t.Errorf("read %d after the write", after.Scale.Spec.Replicas)
	}
	server.refuse("/scale", http.StatusForbidden, metav1.StatusReasonForbidden, "no")
	if after := snapshot(t, reader, autoscalerOf(t, cpuMetric)); after.ScaleError != nil {
		t.Errorf("what was written is not kept: %v", after.ScaleError)
	}
}
