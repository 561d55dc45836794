package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/logging"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/transport"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/apiserver"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/podcache"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/scalecache"
	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// Agent scales the workloads of a cluster's autoscalers as the service recommends.
type Agent struct {
	config   *rest.Config
	options  Options
	metrics  *metrics
	requests *transport.Requests
	reads    *reads
	outage   *transport.Outage
	refusals *transport.Refusals
	platform *platform
	queue    *wakeable
	loop     *agent.Loop
	// uid is the cluster's, "" if it is unknown; set before any reconcile.
	uid string
	// maxAge bounds the age of readings that reconciles share; set before any reconcile.
	maxAge func(time.Duration)

	ready, leads atomic.Bool
}

// maxReadingAge bounds the age of a shared reading.
const maxReadingAge = time.Second

// New returns an agent for the cluster of config. It connects to nothing.
func New(config *rest.Config, options Options) (*Agent, error) {
	a := &Agent{
		options: options, outage: transport.NewOutage(options.Log), queue: &wakeable{},
		refusals: transport.NewRefusals(options.Log, options.Namespaces, "pods", "horizontalpodautoscalers."+autoscalingv2.GroupName, "autoscalers."+v1.GroupVersion.Group),
	}
	var err error
	if a.metrics, err = newMetrics(options.Registerer, a.refusals.Namespaces); err != nil {
		return nil, err
	}
	a.platform = &platform{
		cluster: options.Cluster, metrics: a.metrics, log: options.Log,
		rivals: &rivals{metrics: a.metrics, log: options.Log, keepOn: options.KeepOn},
		named:  options.NamedMetrics, timeout: options.RequestTimeout, unread: a.refusals.Unread,
	}
	if a.requests, err = transport.NewRequests(options.Registerer); err != nil {
		return nil, err
	}
	if a.reads, err = newReads(options.Registerer); err != nil {
		return nil, err
	}
	a.config = rest.CopyConfig(config)
	a.config.Wrap(a.requests.Wrap)
	a.config.Wrap(a.outage.Wrap)
	a.config.Wrap(a.refusals.Wrap)
	return a, nil
}

// Platform returns the adapter.
func (a *Agent) Platform() agent.Platform { return a.platform }

// Queue returns what the loop calls of the controller's queue.
func (a *Agent) Queue() agent.QueueOptions {
	return agent.QueueOptions{
		Wake:     a.queue.add,
		LogLevel: a.outage.Level,
		// A reading is never older than half of a period.
		ShortestPeriod: func(d time.Duration) { a.maxAge(min(maxReadingAge, d/2)) },
	}
}

// Ready returns nil once the agent has read the cluster, and while it may, whether or not it is the leader.
func (a *Agent) Ready() error {
	if problem := a.refusals.Problem(); problem != "" {
		return errors.New(problem)
	}
	if !a.ready.Load() {
		return errors.New("the cluster has not been read yet")
	}
	return nil
}

// Standby says that another agent acts; empty: this one does, or has not read the cluster yet.
func (a *Agent) Standby() string {
	if a.options.Election == nil || a.leads.Load() || !a.ready.Load() {
		return ""
	}
	return "another agent holds the Lease " + a.options.Election.Name + ", and acts; this one stands by"
}

// Acts returns what the agent scales, once it runs.
func (a *Agent) Acts(context.Context) ([]agent.Acting, error) {
	return Acting(a.uid, a.options.Sources, a.options.Namespaces), nil
}

// Acting returns what an agent scales in the cluster of that UID: agents of other sources act on
// other objects. With an empty UID that is nothing.
func Acting(uid string, sources []Source, namespaces []string) (acts []agent.Acting) {
	if uid == "" {
		return nil
	}
	for _, source := range sources {
		acts = append(acts, agent.Acting{Platform: "kubernetes " + uid + " " + string(source), Namespaces: namespaces})
	}
	return acts
}

// Run reconciles by the loop until the context ends and reconciles in flight are done. It first waits
// for the API server. Losing the leadership is an error: another agent may act, so this one must
// stop.
func (a *Agent) Run(ctx context.Context, loop *agent.Loop) error {
	a.loop = loop
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := transport.Await(ctx, a.config); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	w, err := a.wire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer w.events.stop()
	defer w.watch(ctx)()
	if !w.cache.WaitForCacheSync(ctx) || !w.pods.Wait(ctx) {
		return nil // it stops
	}
	for a.refusals.Problem() != "" {
		if !deadline.Sleep(ctx, time.Second) {
			return nil
		}
	}
	a.ready.Store(true)
	defer a.ready.Store(false)
	if e := a.options.Election; e != nil {
		a.options.Log.Info("standing by until elected", zap.String("lease", e.Name), zap.Duration("maxFailover", e.MaxFailover()))
	}
	err = w.manager.Start(ctx)
	if err != nil && err.Error() == leadershipLost {
		e := a.options.Election
		return fmt.Errorf("leadership lost: the Lease %s could not be renewed within %s, and another agent may act; restart this one", e.Name, e.RenewDeadline)
	}
	return err
}

// leadershipLost is the manager's error after losing the leadership.
const leadershipLost = "leader election lost"

// newScheme returns a scheme of the kinds that the agent reads and writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientscheme.AddToScheme(scheme), v1.AddToScheme(scheme))
}

// wiring has the parts of a run.
type wiring struct {
	manager manager.Manager
	events  *events
	cache   cache.Cache
	pods    *podcache.Namespaces
}

// watch starts to read the cluster, also for a standby. The returned function ends that, after the last reconcile.
func (w *wiring) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() { _ = w.cache.Start(ctx) }) // fails only when it runs already
	watching.Go(func() { _ = w.pods.Start(ctx) })  // never fails
	return func() {
		cancel()
		watching.Wait()
	}
}

// running is a cache for a manager, which need not start it: a manager whose cache is not filled yet, for want of a
// right, can't be stopped.
type running struct{ cache.Cache }

// Start implements cache.Cache.
func (running) Start(ctx context.Context) error { <-ctx.Done(); return nil }

// wire creates the parts of a run. What it starts stops with the context.
func (a *Agent) wire(ctx context.Context) (*wiring, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	connections, err := rest.HTTPClientFor(a.config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	clients, err := apiserver.New(a.config)
	if err != nil {
		return nil, err
	}
	if err := a.awaitKinds(ctx, clients.Mapper()); err != nil {
		return nil, err
	}
	events, err := newEvents(a.config, connections, scheme, a.options.Log)
	if err != nil {
		return nil, err
	}
	mgr, watched, err := a.newManager(ctx, scheme, clients.Mapper(), events)
	if err != nil {
		events.stop()
		return nil, err
	}
	pods, err := podcache.NewNamespaces(a.config, connections, a.options.Namespaces, a.newInformer(), a.outage.WatchFailed)
	if err != nil {
		events.stop()
		return nil, err
	}
	a.uid = a.identify(ctx, clients.UID)
	a.loop.SetClusterUID(a.uid)
	versions := scalecache.Watch(ctx, clients.Metadata(), clients.Mapper(), scalecache.WatchOptions{
		Namespaces: a.options.Namespaces, Access: clients,
	})
	sources := cluster.Sources{
		Mapper: clients.Mapper(), Pods: pods, Metrics: clients,
		Scales: scalecache.New(clients, versions),
	}
	acting := cluster.NewReader(sources, cluster.Options{Timeout: a.options.RequestTimeout})
	shadowing := cluster.NewReader(sources, cluster.Options{Timeout: a.options.RequestTimeout})
	a.platform.objects, a.platform.events = a.newStore(mgr.GetClient()), events.recorder
	a.platform.reader, a.platform.shadowing = acting, shadowing
	a.maxAge = func(d time.Duration) {
		acting.SetMaxAge(d)
		shadowing.SetMaxAge(d)
	}
	a.reads.of(acting, shadowing)
	if err := a.addRunnables(ctx, mgr); err != nil {
		events.stop()
		return nil, err
	}
	return &wiring{manager: mgr, events: events, cache: watched, pods: pods}, nil
}

// How long a starting agent waits until discovery has the kinds that it watches: an API server
// that has just started may not serve all at once. A kind that is missing is installed, or is not.
const (
	kindsWait   = 10 * time.Minute
	missingWait = 15 * time.Second
	kindsRetry  = time.Second
)

// awaitKinds waits for the kinds of the sources.
func (a *Agent) awaitKinds(ctx context.Context, mapper meta.ResettableRESTMapper) error {
	ctx, cancel := context.WithTimeout(ctx, kindsWait)
	defer cancel()
	began := time.Now()
	for _, kind := range []schema.GroupKind{
		{Group: autoscalingv2.GroupName, Kind: HPA.Kind()},
		{Group: v1.GroupVersion.Group, Kind: Autoscaler.Kind()},
	} {
		if kind.Kind == Autoscaler.Kind() && !slices.Contains(a.options.Sources, Autoscaler) {
			continue
		}
		for {
			_, err := mapper.RESTMapping(kind)
			switch {
			case err == nil:
			case meta.IsNoMatchError(err) && time.Since(began) >= missingWait && kind.Kind == Autoscaler.Kind():
				return fmt.Errorf("watch Autoscalers: the cluster does not know the kind; install the CustomResourceDefinition (deploy/kustomize/crd): %w", err)
			case !deadline.Sleep(ctx, kindsRetry):
				return fmt.Errorf("the API server does not serve the kind %s: %w", kind.Kind, err)
			default:
				mapper.Reset()
				continue
			}
			break
		}
	}
	return nil
}

// newManager returns a manager, and its cache, which is to be started first.
func (a *Agent) newManager(ctx context.Context, scheme *runtime.Scheme, mapper meta.RESTMapper, events *events) (m manager.Manager, watched cache.Cache, err error) {
	skip := true
	o := manager.Options{
		Scheme:         scheme,
		Logger:         logging.NewManager(ctx, a.options.Log),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform:         cache.TransformStripManagedFields(),
			ByObject:                 map[client.Object]cache.ByObject{&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: keepStatusWriters}},
			DefaultNamespaces:        map[string]cache.Config{},
			DefaultWatchErrorHandler: a.outage.WatchFailed,
			NewInformer:              a.newInformer(),
		},
		NewCache: func(config *rest.Config, o cache.Options) (cache.Cache, error) {
			watched, err = cache.New(config, o)
			return running{watched}, err
		},
		GracefulShutdownTimeout: &a.options.DrainTimeout,
	}
	o.Controller.SkipNameValidation = &skip // a process may run several agents
	for _, namespace := range a.options.Namespaces {
		o.Cache.DefaultNamespaces[namespace] = cache.Config{}
	}
	if e := a.options.Election; e != nil {
		lock, err := newLock(a.config, e, scheme, events)
		if err != nil {
			return nil, nil, fmt.Errorf("leader election: %w", err)
		}
		o.LeaderElection, o.LeaderElectionReleaseOnCancel, o.LeaderElectionResourceLockInterface = true, true, lock
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &e.LeaseDuration, &e.RenewDeadline, &e.RetryPeriod
	}
	m, err = manager.New(a.config, o)
	return m, watched, err
}

// newInformer returns how informers are made: of several namespaces, the agent waits for none that is refused.
func (a *Agent) newInformer() podcache.NewInformer {
	if len(a.options.Namespaces) > 1 {
		return transport.NewSettled
	}
	return toolscache.NewSharedIndexInformer
}

func (a *Agent) newStore(c client.Client) *store {
	sources := map[Source]bool{}
	for _, s := range a.options.Sources {
		sources[s] = true
	}
	return &store{
		client: c, sources: sources,
		settings: settings{period: a.options.SyncPeriod, periods: a.options.ProfilePeriods, shadow: a.options.Shadow},
	}
}

// addRunnables adds the agent's runnables to the manager.
func (a *Agent) addRunnables(ctx context.Context, mgr manager.Manager) error {
	indexes := mgr.GetFieldIndexer()
	if err := indexes.IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, indexHPA); err != nil {
		return fmt.Errorf("watch HorizontalPodAutoscalers: %w", err)
	}
	c, err := controller.NewTyped("setpoint", mgr, a.controllerOptions())
	if err != nil {
		return err
	}
	if err := a.watch(ctx, mgr, c); err != nil {
		return err
	}
	return errors.Join(
		mgr.Add(always(func(ctx context.Context) error { a.loop.Probe(ctx); return nil })),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			a.metrics.leading.Set(1)
			a.leads.Store(true)
			a.loop.Announce(ctx)
			<-ctx.Done()
			a.metrics.leading.Set(0)
			return nil
		})),
	)
}

// controllerOptions has it wait for rights as long as it takes: an agent that ended would be told of as one that is away.
func (a *Agent) controllerOptions() controller.TypedOptions[Key] {
	warm := true
	return controller.TypedOptions[Key]{
		MaxConcurrentReconciles: a.options.Workers,
		Reconciler:              reconciler{a.loop},
		EnableWarmup:            &warm,
		CacheSyncTimeout:        math.MaxInt64,
	}
}

// watch makes the controller watch the sources.
func (a *Agent) watch(ctx context.Context, mgr manager.Manager, c controller.TypedController[Key]) error {
	if err := c.Watch(a.queue); err != nil {
		return err
	}
	if slices.Contains(a.options.Sources, HPA) {
		if err := c.Watch(watchHPAs(mgr.GetCache())); err != nil {
			return err
		}
	}
	if !slices.Contains(a.options.Sources, Autoscaler) {
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1.Autoscaler{}, targetIndex, indexAutoscaler); err != nil {
		return fmt.Errorf("watch Autoscalers: %w", err)
	}
	return c.Watch(watchAutoscalers(mgr.GetCache()))
}

// always is a runnable that also runs on a standby.
type always func(context.Context) error

// Start implements manager.Runnable.
func (f always) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (always) NeedLeaderElection() bool { return false }
