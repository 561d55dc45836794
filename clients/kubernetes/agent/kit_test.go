package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/logging"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.New(librarySink{}))
	runtimelog.SetLogger(logr.New(librarySink{}))
	code := m.Run()
	if code == 0 {
		err := goleak.Find(leftBehind...)
		for range 10 { // each waits for two seconds, which the libraries' last steps exceed on a busy machine
			if err == nil {
				break
			}
			err = goleak.Find(leftBehind...)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// libraryLog receives the log of Kubernetes' libraries; nil: dropped. The libraries share one
// global logger, which must not be set while they run.
var libraryLog atomic.Pointer[zap.Logger]

// librarySink implements logr.LogSink.
type librarySink struct{}

func (s librarySink) sink() logr.LogSink {
	if log := libraryLog.Load(); log != nil {
		return logging.Sink{Log: log}
	}
	return logging.Sink{Log: zap.NewNop()}
}

func (librarySink) Init(logr.RuntimeInfo)                    {}
func (s librarySink) Enabled(level int) bool                 { return s.sink().Enabled(level) }
func (s librarySink) Info(level int, msg string, kv ...any)  { s.sink().Info(level, msg, kv...) }
func (s librarySink) Error(err error, msg string, kv ...any) { s.sink().Error(err, msg, kv...) }
func (s librarySink) WithValues(...any) logr.LogSink         { return s }
func (s librarySink) WithName(string) logr.LogSink           { return s }

// leftBehind are goroutines that a manager leaves after losing the leadership, when its process
// would stop.
var leftBehind []goleak.Option

// world is a cluster in memory, the recommender itself, and the loop between them. All
// workloads scale on a queue, ten entries per replica. It runs in a bubble.
type world struct {
	t        *testing.T
	platform *platform
	loop     *agent.Loop
	// options are the loop's; start creates another loop with them.
	options agent.Options
	served  *prometheus.Registry
	queue   workqueue.TypedRateLimitingInterface[Key]
	// halt stops the reconciles.
	halt func()

	mu       sync.Mutex
	settings settings
	objects  map[Key]client.Object
	version  int
	replicas map[string]int32 // by namespace/name of the workload
	load     map[string]int64 // likewise
	rivals   map[Key]string
	// unread makes metrics unreadable.
	unread bool
	// statusErr, applyErr, readErr and fault are injected errors; nil: none. lostErr is that of a count that is written,
	// and countErr one of reading it again.
	statusErr, applyErr, readErr error
	// unreadErr says that what is known of the namespace is out of date.
	unreadErr         error
	lostErr, countErr error
	fault             func(call string, attempt int) error
	// beforeApply is called before a count is written, without the lock. May be nil.
	beforeApply func()
	// watchers are called for objects that are created, changed or deleted.
	watchers []func(Key)
	// delay is how long a call takes. May be nil.
	delay   func(call string) time.Duration
	service setpointv1.RecommendationServiceServer
	// tamper changes answers in transit. May be nil.
	tamper          func(*setpointv1.RecommendResponse)
	log             []string // of calls that change something
	asked           []time.Time
	requests        []*setpointv1.RecommendRequest
	deletes         []*setpointv1.DeleteTargetRequest
	told            []string // events
	statuses, reads int
	forgotten       []types.UID            // by readers
	readAt          []time.Time            // when reads began
	scaledAt        map[string][]time.Time // by namespace/name of the workload
	// cached are objects as the cache still has them.
	cached map[Key]client.Object
}

// newWorld must be called in a bubble; period is the loop's own.
func newWorld(t *testing.T, period time.Duration) *world {
	t.Helper()
	m, err := newMetrics(nil, nil)
	fatal.If(t, err)
	w := &world{
		t: t, settings: settings{period: period}, objects: map[Key]client.Object{}, replicas: map[string]int32{},
		load: map[string]int64{}, scaledAt: map[string][]time.Time{}, rivals: map[Key]string{}, service: testserver.Recommendations(t),
	}
	w.platform = &platform{
		cluster: "demo", objects: w, reader: w, shadowing: w, events: w.recorder(), metrics: m,
		log: testLog(t), rivals: &rivals{metrics: m, log: testLog(t)},
		unread: func(string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.unreadErr
		},
	}
	w.options = agent.Options{Cluster: "demo", Sources: kinds, Period: period, FirstWait: -1, Log: testLog(t)}
	w.start(func(*agent.Options) {})
	t.Cleanup(func() { w.halt() })
	return w
}

// start starts a loop without any state in place of the previous one, like a restarted agent.
// Existing objects must be added again.
func (w *world) start(change func(*agent.Options)) {
	if w.halt != nil {
		w.halt()
	}
	change(&w.options)
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Key]())
	w.served = prometheus.NewRegistry()
	options, queue := w.options, w.queue
	options.Registerer = w.served
	wake := func(keys ...Key) {
		for _, key := range keys {
			queue.Add(key)
		}
	}
	var err error
	w.loop, err = agent.New(w.platform, agent.Service{Calls: w}, options, agent.QueueOptions{Wake: wake})
	fatal.If(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.loop.Probe(ctx) })
	for range 32 {
		running.Go(func() { w.work(ctx) })
	}
	w.halt = func() {
		queue.ShutDown()
		cancel()
		running.Wait()
	}
}

// counted is the value of a counter or gauge of the loop; without a label: of its only series.
func (w *world) counted(name, label, value string) float64 {
	w.t.Helper()
	families, err := w.served.Gather()
	fatal.If(w.t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || m.GetLabel()[0].GetName() == label && m.GetLabel()[0].GetValue() == value {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	w.t.Errorf("no %s{%s=%q}", name, label, value)
	return 0
}

// work processes the queue as the controller does.
func (w *world) work(ctx context.Context) {
	queue, reconciles := w.queue, reconciler{w.loop}
	for {
		key, end := queue.Get()
		if end {
			return
		}
		result, err := reconciles.Reconcile(ctx, key)
		if err != nil {
			w.t.Error(err)
		}
		if result.RequeueAfter > 0 {
			// The library keeps those below all others that were there at the start, unless it is told otherwise.
			if result.Priority == nil || *result.Priority != 0 {
				w.t.Error("an object keeps the priority that it came with")
			}
			queue.AddAfter(key, result.RequeueAfter)
		}
		queue.Done(key)
	}
}

func keyOf(o client.Object) Key {
	if _, ok := o.(*v1.Autoscaler); ok {
		return Autoscaler.Key(o.GetNamespace(), o.GetName())
	}
	return HPA.Key(o.GetNamespace(), o.GetName())
}

// add creates an object in the cluster and notifies the loop.
func (w *world) add(o client.Object) Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := keyOf(o)
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.version)))
		o.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	}
	w.objects[key] = o
	w.changed(key)
	return key
}

// change changes an object as a user does.
func (w *world) change(key Key, change func(*autoscalingv2.HorizontalPodAutoscaler)) {
	w.mu.Lock()
	changed := w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
	w.mu.Unlock()
	change(changed)
	w.add(changed)
}

func (w *world) remove(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
	w.changed(key)
}

// changed notifies about an object. The caller holds the lock.
func (w *world) changed(key Key) {
	w.queue.Add(key)
	for _, watcher := range w.watchers {
		watcher(key)
	}
}

// with changes the world under its lock.
func (w *world) with(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) hpa(key Key) *autoscalingv2.HorizontalPodAutoscaler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler)
}

func (w *world) autoscaler(key Key) *v1.Autoscaler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[key].(*v1.Autoscaler)
}

// workload creates a workload in the cluster.
func (w *world) workload(name string, replicas int32, load int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas[name], w.load[name] = replicas, load
}

// written returns how many statuses were written.
func (w *world) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.statuses
}

func (w *world) readsSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

// questions returns the requests so far with their times.
func (w *world) questions() ([]time.Time, []*setpointv1.RecommendRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked), slices.Clone(w.requests)
}

// able is the object's condition AbleToScale: status, reason.
func (w *world) able(key Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := conditionOf(statusOf(w.objects[key]), autoscalingv2.AbleToScale)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason
}

func (w *world) count(workload string) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[workload]
}

// askedSince returns the number of requests since that time.
func (w *world) askedSince(at time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, asked := range w.asked {
		if !asked.Before(at) {
			n++
		}
	}
	return n
}

// calls returns and clears the log of calls.
func (w *world) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

func (w *world) events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// The objects.

func (w *world) get(_ context.Context, key Key) (*object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.objects[key]
	if old := w.cached[key]; old != nil {
		found = old
	}
	switch o := found.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return objectOfHPA(o, w.settings), nil
	case *v1.Autoscaler:
		return objectOfAutoscaler(o, w.settings), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "autoscalers"}, key.Name)
}

func (w *world) writeStatus(_ context.Context, over client.Object, update *statusUpdate) (client.Object, error) {
	w.take("status")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.statusErr != nil {
		return nil, w.statusErr
	}
	next := withStatus(over, update)
	key := keyOf(over)
	if stored := w.objects[key]; stored == nil || stored.GetResourceVersion() != over.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "autoscalers"}, over.GetName(), fmt.Errorf("the object has been modified"))
	}
	w.version++
	next.SetResourceVersion(strconv.Itoa(w.version))
	next.SetManagedFields(wroteStatus(w.objects[key].GetManagedFields(), fieldManager))
	w.objects[key] = next
	w.statuses++
	return next, nil
}

// wroteStatus is what the API server does to managed fields when a manager writes a status.
func wroteStatus(entries []metav1.ManagedFieldsEntry, manager string) []metav1.ManagedFieldsEntry {
	others := slices.DeleteFunc(slices.Clone(entries), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == manager })
	return append(others, statusEntry(manager, time.Now()))
}

func statusEntry(manager string, at time.Time) metav1.ManagedFieldsEntry {
	wrote := metav1.NewTime(at).Rfc3339Copy()
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &wrote, Subresource: "status"}
}

func (w *world) rival(_ context.Context, o *object) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rivals[o.key], nil
}

func (w *world) native(_ context.Context, o *object) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	if sourceOf(o.key) == HPA {
		return o.autoscaler, nil
	}
	return nil, nil
}

// The reader.

func (w *world) Snapshot(_ context.Context, a *autoscalingv2.HorizontalPodAutoscaler, _ cluster.Own) (*kubernetes.Snapshot, error) {
	began := time.Now()
	w.take("read")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	w.readAt = append(w.readAt, began)
	workload := a.Namespace + "/" + a.Spec.ScaleTargetRef.Name
	snapshot := &kubernetes.Snapshot{Autoscaler: a}
	replicas, ok := w.replicas[workload]
	if !ok {
		snapshot.ScaleError = &kubernetes.ScaleError{Message: fmt.Sprintf("deployments.apps %q not found", a.Spec.ScaleTargetRef.Name)}
		return snapshot, w.readErr
	}
	snapshot.Scale = &autoscalingv1.Scale{
		Spec:   autoscalingv1.ScaleSpec{Replicas: replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: replicas, Selector: "app=" + a.Spec.ScaleTargetRef.Name},
	}
	if w.unread {
		return snapshot, w.readErr
	}
	snapshot.ExternalMetrics = []kubernetes.ExternalMetric{{
		ExternalMetricValue: v1beta1.ExternalMetricValue{MetricName: "queue", Timestamp: metav1.Now(), Value: *resource.NewQuantity(w.load[workload], resource.DecimalSI)},
		Selector:            &metav1.LabelSelector{},
	}}
	return snapshot, w.readErr
}

func (w *world) Apply(_ context.Context, snapshot *kubernetes.Snapshot, replicas int32) (*autoscalingv1.Scale, error) {
	w.take("apply")
	w.mu.Lock()
	before := w.beforeApply
	w.beforeApply = nil
	w.mu.Unlock()
	if before != nil {
		before()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.applyErr != nil {
		return nil, w.applyErr
	}
	workload := snapshot.Autoscaler.Namespace + "/" + snapshot.Autoscaler.Spec.ScaleTargetRef.Name
	if was := snapshot.Scale.Spec.Replicas; w.replicas[workload] != was {
		return nil, &cluster.MovedError{Name: workload, Was: was, Now: w.replicas[workload]}
	}
	w.note("scale %s %d", workload, replicas)
	w.replicas[workload] = replicas
	w.scaledAt[workload] = append(w.scaledAt[workload], time.Now())
	return nil, w.lostErr
}

func (w *world) Replicas(_ context.Context, snapshot *kubernetes.Snapshot) (int32, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[snapshot.Autoscaler.Namespace+"/"+snapshot.Autoscaler.Spec.ScaleTargetRef.Name], w.countErr
}

func (w *world) Forget(_, _ string, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten = append(w.forgotten, uid)
}

// take waits as long as a call takes.
func (w *world) take(call string) {
	w.mu.Lock()
	delay := w.delay
	w.mu.Unlock()
	if delay != nil {
		time.Sleep(delay(call))
	}
}

// The service.

func (w *world) failure(call string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		return nil
	}
	return w.fault(call, len(w.asked))
}

func (w *world) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	w.with(func() { w.asked, w.requests = append(w.asked, time.Now()), append(w.requests, req) })
	if err := w.failure("recommend"); err != nil {
		return nil, err
	}
	w.take("ask")
	answer, err := w.service.Recommend(ctx, req)
	w.take("answer")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tamper != nil && answer != nil {
		answer = proto.CloneOf(answer)
		w.tamper(answer)
	}
	return answer, err
}

func (w *world) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	if err := w.failure("report"); err != nil {
		return nil, err
	}
	w.take("report")
	w.with(func() { w.note("report %s", req.GetOutcome()) })
	return w.service.ReportScale(ctx, req)
}

func (w *world) DeleteIncarnation(_ context.Context, req *setpointv1.DeleteTargetRequest) error {
	w.with(func() { w.deletes = append(w.deletes, req) })
	if err := w.failure("delete"); err != nil {
		return err
	}
	w.with(func() { w.note("delete %s", req.GetName()) })
	return status.Error(codes.NotFound, "no such target")
}

// The events.

type eventLog struct {
	record.FakeRecorder
	w *world
}

func (w *world) recorder() record.EventRecorder { return &eventLog{w: w} }

// Event implements record.EventRecorder.
func (e *eventLog) Event(_ runtime.Object, kind, reason, message string) {
	e.w.with(func() { e.w.told = append(e.w.told, kind+" "+reason+" "+message) })
}

// newHPA scales namespace/name on its queue, from 1 to 100, at once in both directions.
func newHPA(namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	zero, maxPolicy := int32(0), autoscalingv2.MaxChangePolicySelect
	rules := func() *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &zero, SelectPolicy: &maxPolicy,
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 100, PeriodSeconds: 1}},
		}
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MaxReplicas:    100,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(10, resource.DecimalSI)},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()},
		},
	}
	kubernetes.Defaults(hpa)
	return hpa
}

// evaluatedHPA is an HPA that was evaluated before.
func evaluatedHPA(namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := newHPA(namespace, name)
	hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 3, DesiredReplicas: 3, Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
		{Type: autoscalingv2.AbleToScale, Status: "True", Reason: "ReadyForNewScale", Message: "recommended size matches current size", LastTransitionTime: metav1.Now().Rfc3339Copy()},
		{Type: autoscalingv2.ScalingActive, Status: "True", Reason: "ValidMetricFound", Message: "the HPA was able to successfully calculate a replica count from external metric queue(nil)", LastTransitionTime: metav1.Now().Rfc3339Copy()},
	}}
	return hpa
}
