package scalecache_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/scalecache"
)

// workload is an object with a scale, whose version is watched with a delay.
type workload struct {
	version, watched int
	replicas         int32
	unwatched        bool
	err              error
	gets, puts       int
}

func (w *workload) scale() *autoscalingv1.Scale {
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: strconv.Itoa(w.version)},
		Spec:       autoscalingv1.ScaleSpec{Replicas: w.replicas},
	}
}

func (w *workload) Get(context.Context, schema.GroupResource, string, string) (*autoscalingv1.Scale, error) {
	w.gets++
	return w.scale(), w.err
}

func (w *workload) Update(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	w.puts++
	if w.err != nil {
		return nil, w.err
	}
	w.version, w.replicas = w.version+1, scale.Spec.Replicas
	return w.scale(), nil
}

func (w *workload) ResourceVersion(schema.GroupResource, string, string) (string, bool) {
	return strconv.Itoa(w.watched), !w.unwatched
}

func TestScaleCache(t *testing.T) {
	t.Parallel()
	rules := map[string]struct {
		do   func(w *workload, get func() int32, put func(int32))
		gets int
	}{
		"a scale is read once while its object stays": {func(_ *workload, get func() int32, _ func(int32)) {
			get()
			get()
		}, 1},
		"and again when that changed": {func(w *workload, get func() int32, _ func(int32)) {
			get()
			w.version, w.watched, w.replicas = 8, 8, 4
			get()
			get()
		}, 2},
		"a watch that is behind does not hide what was read": {func(w *workload, get func() int32, _ func(int32)) {
			w.version, w.watched = 9, 7
			get()
			get()
			w.watched = 9
			get()
		}, 1},
		"a watch that passes by a version between the two": {func(w *workload, get func() int32, _ func(int32)) {
			w.version, w.watched = 9, 7
			get()
			w.watched = 8
			get()
			w.watched = 9
			get()
		}, 2},
		"what was written is kept": {func(_ *workload, get func() int32, put func(int32)) {
			get()
			put(6)
			if get() != 6 {
				panic("not what was written")
			}
		}, 1},
		"a write that failed makes it be read again": {func(w *workload, get func() int32, put func(int32)) {
			get()
			w.err = errors.New("conflict")
			put(6)
			w.err = nil
			get()
		}, 2},
		"an object that is not watched is read each time": {func(w *workload, get func() int32, put func(int32)) {
			w.unwatched = true
			get()
			put(6)
			get()
			w.unwatched = false
			get()
		}, 3},
		"a failure is not kept": {func(w *workload, get func() int32, _ func(int32)) {
			w.err = errors.New("away")
			get()
			w.err = nil
			get()
		}, 2},
		"nothing is used for more than an hour": {func(_ *workload, get func() int32, _ func(int32)) {
			get()
			time.Sleep(30*time.Minute - 1)
			get()
			time.Sleep(30*time.Minute + 1)
			get()
		}, 2},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				web := &workload{version: 7, watched: 7, replicas: 3}
				cache := scalecache.New(web, web)
				resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
				rule.do(web, func() int32 {
					scale, err := cache.Get(t.Context(), resource, "shop", "web")
					if err == nil && scale.Spec.Replicas != web.replicas {
						t.Errorf("got %d replicas, want %d", scale.Spec.Replicas, web.replicas)
					}
					return scale.Spec.Replicas
				}, func(replicas int32) {
					wanted := web.scale()
					wanted.Spec.Replicas = replicas
					_, _ = cache.Update(t.Context(), resource, wanted)
				})
				if web.gets != rule.gets {
					t.Errorf("read %d times, want %d", web.gets, rule.gets)
				}
			})
		})
	}
}

// Scales that were read together, as at a start, are not all read together again.
func TestScalesAreReadAgainOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const objects = 2000
		web := &workload{version: 7, watched: 7, replicas: 3}
		cache := scalecache.New(web, web)
		resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
		most := 0
		for reconcile := range 60 {
			before := web.gets
			for i := range objects {
				if _, err := cache.Get(t.Context(), resource, "shop", strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
			}
			if reconcile > 0 {
				most = max(most, web.gets-before)
			}
			time.Sleep(time.Minute)
		}
		if web.gets < objects+objects/2 || most > objects/10 {
			t.Errorf("%d reads of %d scales in an hour, up to %d in a minute", web.gets, objects, most)
		}
	})
}
