package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// writeAs changes an object's status as another controller does that wants so many replicas.
func (w *world) writeAs(manager string, key Key, replicas int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
	next.Status.DesiredReplicas = replicas
	next.ManagedFields = wroteStatus(next.ManagedFields, manager)
	w.version++
	next.SetResourceVersion(fmt.Sprint(w.version))
	w.objects[key] = next
}

// rivalCount is the metric of objects with a rival.
func (w *world) rivalCount(t *testing.T) float64 {
	t.Helper()
	var m dto.Metric
	fatal.If(t, w.platform.metrics.rivalObjects.Write(&m))
	return m.GetGauge().GetValue()
}

// conflicting is the object's condition of that type: reason and message.
func (w *world) conflicting(key Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := conditionOf(statusOf(w.objects[key]), ConflictingController)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestTheAgentGivesWayToAnotherController(t *testing.T) {
	t.Parallel()
	const told = `True StatusWrittenByAnother: "kube-controller-manager" writes the status of this object, too; is the built-in controller still on? Setpoint gives way, and acts again when no other controller has written it for 5m0s`
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		core, lines := observer.New(zapcore.InfoLevel)
		w.platform.rivals.log = zap.New(core)
		w.workload("shop/web", 3, 30)
		w.workload("shop/api", 3, 30)
		hpa := evaluatedHPA("shop", "web")
		hpa.ManagedFields = wroteStatus(nil, BuiltInManager) // before the agent started
		key, other := w.add(hpa), w.add(evaluatedHPA("shop", "api"))
		time.Sleep(3 * period)
		want(t, "condition after the other has gone", w.conflicting(key), "")
		want(t, "rivals after the other has gone", w.rivalCount(t), 0)

		own := autoscalingv2.HorizontalPodAutoscalerCondition{Type: "Overridden", Status: "True", Reason: "Held", Message: "held at 3", LastTransitionTime: metav1.Now().Rfc3339Copy()}
		w.with(func() {
			held := w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
			held.Status.Conditions = append(held.Status.Conditions, own)
			w.objects[key] = held
		})
		w.writeAs(BuiltInManager, key, 4)
		w.with(func() { w.load["shop/web"], w.load["shop/api"] = 90, 90 })
		time.Sleep(2 * period)
		want(t, "a condition that only this service has, once it gives way", conditionOf(&w.hpa(key).Status, own.Type), nil)
		want(t, "replicas beside another controller", w.count("shop/web"), 3)
		want(t, "replicas of what it does not touch", w.count("shop/api"), 9)
		want(t, "condition", w.conflicting(key), told)
		want(t, "condition of what it does not touch", w.conflicting(other), "")
		want(t, "what the other wants", w.hpa(key).Status.DesiredReplicas, 4)
		want(t, "rivals", w.rivalCount(t), 1)
		written := w.written()
		for range 60 { // the other one writes now and then: longer than its silence would have to last
			w.writeAs(BuiltInManager, key, 4)
			time.Sleep(2 * period)
		}
		want(t, "replicas later", w.count("shop/web"), 3)
		want(t, "statuses written meanwhile", w.written(), written)
		if n := len(w.rivalQuestions("web", rivalQuiet)); n != 0 {
			t.Errorf("%d questions while it gives way", n)
		}

		time.Sleep(rivalQuiet - 2*period)
		want(t, "replicas before it is sure that the other has gone", w.count("shop/web"), 3)
		time.Sleep(3 * period)
		want(t, "replicas when the other has gone", w.count("shop/web"), 9)
		want(t, "condition when the other has gone", w.conflicting(key), "")
		want(t, "rivals when the other has gone", w.rivalCount(t), 0)

		w.writeAs(BuiltInManager, key, 4)
		time.Sleep(2 * period)
		want(t, "rivals when it is back", w.rivalCount(t), 1)
		written = w.written()
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Annotations[ShadowAnnotation] = "treu" })
		for range 3 {
			w.writeAs(BuiltInManager, key, 4)
			time.Sleep(2 * period)
		}
		want(t, "statuses written while an annotation is misspelled", w.written(), written)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Annotations[ShadowAnnotation] = "true" })
		settle()
		want(t, "rivals of a shadow", w.rivalCount(t), 0)
		want(t, "lines that it acts again", lines.FilterMessageSnippet("acting again").Len(), 1)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { delete(hpa.Annotations, ShadowAnnotation) })
		time.Sleep(2 * period)
		w.writeAs(BuiltInManager, key, 4)
		time.Sleep(2 * period)
		want(t, "rivals when it is no shadow any more", w.rivalCount(t), 1)
		w.remove(key)
		settle()
		want(t, "rivals of objects that are gone", w.rivalCount(t), 0)
	})
}

// rivalQuestions are the times of requests for targets of that name.
func (w *world) rivalQuestions(name string, in time.Duration) (at []time.Time) {
	times, requests := w.questions()
	for i := range times {
		if time.Since(times[i]) < in && strings.HasSuffix(requests[i].GetTarget(), "/"+name) {
			at = append(at, times[i])
		}
	}
	return at
}

func TestTheAgentContinuesIfConfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.platform.rivals.keepOn = true
		w.workload("shop/web", 3, 30)
		key := w.add(evaluatedHPA("shop", "web"))
		time.Sleep(2 * period)
		w.writeAs(BuiltInManager, key, 4)
		w.with(func() { w.load["shop/web"] = 90 })
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 9)
		want(t, "rivals", w.rivalCount(t), 1)
		if got := w.conflicting(key); !strings.HasSuffix(got, "Setpoint acts nevertheless, as --on-rival says") {
			t.Errorf("condition: %s", got)
		}
		time.Sleep(rivalQuiet + 2*period)
		w.with(func() { w.load["shop/web"] = 50 })
		time.Sleep(2 * period)
		want(t, "condition when the other has gone", w.conflicting(key), "")
	})
}

// A single write does not make a rival: clearing a status by hand locks nobody out.
func TestWhoIsARival(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type look struct {
		after   time.Duration // since the last one
		manager string        // the writer since, "": none
		want    string        // written, certain
	}
	const nobody, once, rival, quiet = "false false", "true false", "true true", "false true"
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"the built-in controller", []look{{0, "", nobody}, {period, BuiltInManager, rival}, {period, "", quiet}}},
		{"who wrote before the first look", []look{{0, BuiltInManager, nobody}, {period, "", nobody}}},
		{"and comes again", []look{{0, BuiltInManager, nobody}, {period, BuiltInManager, rival}}},
		{"a person", []look{{0, "", nobody}, {period, "kubectl-edit", once}, {period, "", nobody}}},
		{"who comes again is none", []look{{0, "", nobody}, {period, "hpa", once}, {rivalQuiet - time.Second, "hpa", rival}}},
		{"after a while he is", []look{{0, "", nobody}, {period, "hpa", once}, {rivalQuiet, "hpa", once}}},
		{"the agent itself", []look{{0, "", nobody}, {period, fieldManager, nobody}, {period, fieldManager, nobody}}},
		{"many of once", []look{{0, "", nobody}, {period, oldManagers, nobody}, {period, oldManagers, nobody}}},
		{"it is one until it was quiet", []look{{0, "", nobody}, {period, BuiltInManager, rival}, {rivalQuiet - time.Second, "", quiet}, {time.Second, "", nobody}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hpa, now := evaluatedHPA("shop", "web"), start
			var v rivalry
			for i, l := range tt.looks {
				now = now.Add(l.after)
				if l.manager != "" {
					hpa.ManagedFields = append(hpa.ManagedFields, statusEntry(l.manager, now))
				}
				written := v.look(now, objectOfHPA(hpa, settings{period: period}))
				want(t, fmt.Sprint("look ", i), fmt.Sprint(written, " ", v.certain), l.want)
			}
		})
	}
	hpa := evaluatedHPA("shop", "web")
	v := rivalry{looked: true}
	spec := statusEntry("kubectl", start)
	spec.Subresource = ""
	hpa.ManagedFields = []metav1.ManagedFieldsEntry{spec}
	want(t, "a change of the spec", v.look(start, objectOfHPA(hpa, settings{period: period})), false)
	hpa.ManagedFields = []metav1.ManagedFieldsEntry{statusEntry(BuiltInManager, start)}
	want(t, "what is written to a shadow", v.look(start, objectOfHPA(hpa, settings{period: period, shadow: true})), false)
	want(t, "the first look at what was a shadow", v.look(start, objectOfHPA(hpa, settings{period: period})), false)
	want(t, "how long an object that is seldom looked at must be left alone", quietOf(time.Hour), 2*time.Hour)
}

// Warnings are rate limited, however many objects have a rival.
func TestRivalsAreWarnedOfNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		core, lines := observer.New(zapcore.WarnLevel)
		w.platform.rivals.log = zap.New(core)
		var keys []Key
		for i := range 20 {
			name := fmt.Sprintf("web-%02d", i)
			w.workload("shop/"+name, 3, 30)
			keys = append(keys, w.add(evaluatedHPA("shop", name)))
		}
		time.Sleep(2 * period)
		const times = 61
		for range times {
			for _, key := range keys {
				w.writeAs(BuiltInManager, key, 4)
			}
			time.Sleep(period + pace.Slack(period))
		}
		if n := lines.Len(); n != 3 {
			t.Errorf("%d warnings in %s of %d rivals", n, times*period, len(keys))
		}
		last := lines.All()[lines.Len()-1].ContextMap()
		want(t, "objects", last["objects"], any(int64(len(keys))))
		want(t, "manager", last["manager"], any(BuiltInManager))
	})
}

// statusServer is the API server's update of a status, with its own code for managed fields.
type statusServer struct {
	stored  *autoscalingv2.HorizontalPodAutoscaler
	manager *managedfields.FieldManager
}

func newStatusServer(t *testing.T, scheme *runtime.Scheme, stored *autoscalingv2.HorizontalPodAutoscaler) *statusServer {
	t.Helper()
	version := autoscalingv2.SchemeGroupVersion
	manager, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), scheme, scheme, scheme,
		version.WithKind("HorizontalPodAutoscaler"), version, "status", nil)
	fatal.If(t, err)
	stored.SetGroupVersionKind(version.WithKind("HorizontalPodAutoscaler"))
	// Without managed fields the API server does not start them on an update.
	spec := metav1.NewFieldsV1(`{"f:spec":{}}`)
	at := metav1.Now()
	stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update", APIVersion: version.String(), Time: &at, FieldsType: "FieldsV1", FieldsV1: spec}}
	return &statusServer{stored: stored, manager: manager}
}

// update implements the update of a subresource.
func (s *statusServer) update(_ context.Context, _ client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
	var given client.SubResourceUpdateOptions
	given.ApplyOptions(options)
	next := o.DeepCopyObject().(*autoscalingv2.HorizontalPodAutoscaler)
	next.TypeMeta = s.stored.TypeMeta
	written, err := s.manager.Update(s.stored, next, given.FieldManager)
	if err == nil {
		s.stored = written.(*autoscalingv2.HorizontalPodAutoscaler)
	}
	return err
}

// The API server distinguishes writes of others from the agent's, and loses none because of
// fields that the cache drops.
func TestTheAPIServerTellsWhoWrote(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme()
	fatal.If(t, err)
	server := newStatusServer(t, scheme, newHPA("shop", "web"))
	s := &store{client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: server.update}).Build()}
	cached := func() *autoscalingv2.HorizontalPodAutoscaler {
		kept, err := keepStatusWriters(server.stored.DeepCopy())
		fatal.If(t, err)
		return kept.(*autoscalingv2.HorizontalPodAutoscaler)
	}
	status := evaluatedHPA("shop", "web").Status
	write := func(replicas int32) {
		t.Helper()
		status.DesiredReplicas = replicas
		if _, err := s.writeStatus(t.Context(), cached(), &statusUpdate{status: &status}); err != nil {
			t.Fatal(err)
		}
	}
	writer := func() string {
		manager, _ := LastStatusWriter(cached())
		return manager
	}
	write(3)
	want(t, "others after the agent wrote", writer(), "")
	want(t, "entries in the cache", len(cached().ManagedFields), 1)
	theirs := server.stored.DeepCopy()
	theirs.Status.DesiredReplicas, theirs.Status.CurrentReplicas = 7, 7
	fatal.If(t, server.update(t.Context(), nil, "status", theirs, client.FieldOwner(BuiltInManager)))
	want(t, "others after the built-in controller wrote", writer(), BuiltInManager)
	_, before := LastStatusWriter(cached())
	status.CurrentReplicas = 7 // the agent agrees: the field stays the other's
	write(5)
	_, after := LastStatusWriter(cached())
	want(t, "when the built-in controller wrote, after the agent wrote again", after, before)
	for _, f := range cached().ManagedFields {
		if f.FieldsV1 != nil {
			t.Errorf("the cache keeps the fields of %s", f.Manager)
		}
	}
	want(t, "entries in the API server", len(server.stored.ManagedFields), 3)
	for _, f := range server.stored.ManagedFields {
		if f.FieldsV1 == nil || len(f.FieldsV1.GetRawString()) < 3 {
			t.Errorf("the agent's write took the fields of %s away", f.Manager)
		}
	}
	status.CurrentReplicas = 4
	write(4)
	want(t, "others after the agent wrote over all", writer(), "")
}
