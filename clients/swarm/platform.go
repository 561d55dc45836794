package swarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/settings"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/swarm/nodes"
)

// stackLabel is the label of a service's stack, set by docker stack deploy.
const stackLabel = "com.docker.stack.namespace"

// noStack is the namespace of services without a stack.
const noStack = "default"

// Additional reasons for not scaling a service.
const (
	// ReasonNotReplicated means that the service has no count.
	ReasonNotReplicated = "NotReplicated"
	// ReasonInvalidLabel means that a label is wrong.
	ReasonInvalidLabel = "InvalidLabel"
)

// Usage returns the query for the usage of a service's tasks. It must name tasks by their
// ids (podLabel, podPath).
type Usage func(resource, serviceID string) samples.Query

// Options are the settings of a platform.
type Options struct {
	// Sources provides metrics. Nil disables them.
	Sources samples.Reader
	// Usage queries resource usage. Nil, without Nodes: none, so that metrics of cpu and memory
	// fail.
	Usage Usage
	// Nodes has usage from the nodes' reports, instead of Usage.
	Nodes *nodes.Store
	// Timeout bounds what a step reads of the engine or writes to it: a list of all services, a service, a service
	// with its tasks, a count. Default: agent.DefaultRequestTimeout.
	Timeout time.Duration
}

// Platform is the adapter for a swarm. It implements agent.Watched.
type Platform struct {
	engine  *Engine
	options Options
	// listed reports that the services have been listed once, and listErr why not.
	listed  atomic.Bool
	listErr atomic.Pointer[error]
	// rivals is Problem's text; nil: not looked yet.
	rivals atomic.Pointer[string]
	// gone has the keys of services that Object has found gone since the last list began: one that is there again in the
	// next list is told of, though that list is as the one before.
	gone sync.Map
}

var _ agent.Watched = (*Platform)(nil)

// New returns the platform of a manager's engine. It opens no connection.
func New(engine *Engine, options Options) *Platform {
	if options.Sources == nil {
		options.Sources = &samples.Set{}
	}
	options.Timeout = cmp.Or(options.Timeout, agent.DefaultRequestTimeout)
	return &Platform{engine: engine, options: options}
}

// KeyOf is the key of a service: the stack is its namespace.
func KeyOf(s *swarm.Service) agent.Key {
	return agent.Key{Kind: Kind, Namespace: cmp.Or(s.Spec.Labels[stackLabel], noStack), Name: s.Spec.Name}
}

// scaled is a service with its settings.
type scaled struct {
	id      string
	wants   *settings.Settings
	metrics []samples.Metric
}

// Object implements agent.Platform.
func (p *Platform) Object(ctx context.Context, key agent.Key, _ *agent.Object) (*agent.Object, error) {
	o, err := p.object(ctx, key)
	if errors.Is(err, agent.ErrGone) {
		p.gone.Store(key, true)
	}
	return o, err
}

func (p *Platform) object(ctx context.Context, key agent.Key) (*agent.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	s, err := p.engine.inspect(ctx, key.Name)
	if errors.Is(err, errNoService) {
		return nil, p.notFound(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case KeyOf(&s.Service) != key: // the engine also finds services by prefixes of their ids
		return nil, p.notFound(ctx, key)
	case !Enabled(s.Spec.Labels):
		return nil, agent.ErrGone
	}
	o := &agent.Object{Key: key, UID: s.ID, Revision: agent.Version(revision(s.Spec.Labels)), Hold: Unscalable(&s.Service)}
	wants, metrics, err := p.Read(&s.Service)
	if err != nil {
		o.Hold = &agent.Hold{Outcome: agent.OutcomeInvalid, Reason: ReasonInvalidLabel, Message: err.Error()}
		return o, nil
	}
	o.Period, o.Shadow, o.Stages, o.Fleet, o.Spec, o.Native = wants.Period, wants.Shadow, wants.Stages, wants.Fleet, wants.Spec, &scaled{s.ID, wants, metrics}
	o.Warning = strings.Join(wants.Warnings, "; ")
	return o, nil
}

// notFound returns ErrGone if the services, listed by one call, don't have one that the engine did not
// find. To find it takes the engine three, of which it ignores failures, as of a leader that is lost.
func (p *Platform) notFound(ctx context.Context, key agent.Key) error {
	services, err := p.engine.Services(ctx, key.Name)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(services, func(s swarm.Service) bool { return KeyOf(&s) == key }):
		return errors.New("the engine lists the service, but did not find it")
	}
	return agent.ErrGone
}

// Read returns a service's settings, with the metrics of its spec and their queries. The error
// is a *typed.Error. It queries no source.
func (p *Platform) Read(s *swarm.Service) (*settings.Settings, []samples.Metric, error) {
	wants, err := ParseLabels(s.Spec.Name, s.Spec.Labels)
	if err != nil {
		return nil, nil, err
	}
	metrics := slices.Clone(wants.Metrics)
	if p.options.Usage != nil {
		for _, m := range wants.Spec.GetMetrics() {
			if resource := m.GetResource(); resource != nil && !slices.ContainsFunc(wants.Metrics, func(one samples.Metric) bool { return one.Spec == m }) {
				metrics = append(metrics, samples.Metric{Spec: m, Query: p.options.Usage(resource.GetName(), s.ID)})
			}
		}
	}
	if err := form.Check(p.options.Sources, metrics); err != nil {
		return nil, nil, err
	}
	return wants, metrics, nil
}

// revision is equal for equivalent labels.
func revision(labels map[string]string) string {
	var ours []string
	for label, value := range labels {
		if strings.HasPrefix(label, prefix) {
			ours = append(ours, label+"="+value)
		}
	}
	slices.Sort(ours)
	return strings.Join(ours, "\n")
}

// Unscalable returns why a service can't be scaled, whatever its labels; nil: it can.
func Unscalable(s *swarm.Service) *agent.Hold {
	mode := ""
	switch {
	case s.Spec.Mode.Replicated != nil:
	case s.Spec.Mode.Global != nil:
		mode = "global: it has one task on each node"
	case s.Spec.Mode.ReplicatedJob != nil:
		mode = "a replicated job: it ends"
	case s.Spec.Mode.GlobalJob != nil:
		mode = "a global job: it ends"
	default:
		mode = "of a mode that this agent does not know"
	}
	if mode != "" {
		return &agent.Hold{
			Outcome: agent.OutcomeInvalid, Reason: ReasonNotReplicated,
			Message: fmt.Sprintf("the service %s can't be scaled, because it is %s; only replicated services can: remove %s", s.Spec.Name, mode, EnableLabel),
		}
	}
	return nil
}

// updateHold returns why an update forbids a change of the count, nil if it doesn't.
func updateHold(s *swarm.Service, wants *settings.Settings, change agent.Change) *agent.Hold {
	var why string
	switch {
	case paused(s):
		why = fmt.Sprintf("an update of the service is paused (%s), and a new count would make Swarm continue it: resume the update or roll it back", s.UpdateStatus.State)
	case updates(s) && (!wants.ScaleUpInUpdates || change.To < change.From || s.UpdateStatus.State != swarm.UpdateStateUpdating):
		why = fmt.Sprintf("an update of the service is in progress (%s), and a new count would become part of the state that a rollback restores", s.UpdateStatus.State)
	default:
		return nil
	}
	return &agent.Hold{Outcome: agent.OutcomeWaiting, Reason: agent.ReasonUpdating, Message: why}
}

// paused reports whether Swarm has paused an update that failed. Any change of the spec resumes
// it, and would replace the tasks of the old image after all.
func paused(s *swarm.Service) bool {
	return s.UpdateStatus != nil && (s.UpdateStatus.State == swarm.UpdateStatePaused || s.UpdateStatus.State == swarm.UpdateStateRollbackPaused)
}

// updates reports whether an update is in progress that failures may end. Swarm keeps one
// previous spec: after a change of the count that is the new spec with the old count, so that a
// rollback would keep the failed image; and an update that restarts counts failures from zero,
// so that it may never be paused.
func updates(s *swarm.Service) bool {
	if s.UpdateStatus == nil {
		return false
	}
	switch s.UpdateStatus.State {
	case swarm.UpdateStateRollbackStarted:
		return true
	case swarm.UpdateStateUpdating:
		return s.Spec.UpdateConfig == nil || s.Spec.UpdateConfig.FailureAction != swarm.UpdateFailureActionContinue
	}
	return false
}

// replicasOf is the count of a replicated service; absent: one.
func replicasOf(s *swarm.Service) (int32, error) {
	if s.Spec.Mode.Replicated == nil {
		return 0, errors.New("the service is no longer replicated")
	}
	n := s.Spec.Mode.Replicated.Replicas
	switch {
	case n == nil:
		return 1, nil
	case *n > math.MaxInt32:
		return 0, fmt.Errorf("%d replicas are more than can be asked about", *n)
	}
	return int32(*n), nil
}

// Observe implements agent.Platform.
func (p *Platform) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	wanted := o.Native.(*scaled)
	reading, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	s, err := p.engine.inspect(reading, wanted.id)
	if err != nil {
		return nil, err
	}
	// A reason not to scale may have arisen since the service was read.
	if hold := Unscalable(&s.Service); hold != nil {
		return nil, &agent.HoldError{Hold: *hold}
	}
	replicas, err := replicasOf(&s.Service)
	if err != nil {
		return nil, err
	}
	tasks, err := p.engine.tasks(reading, wanted.id)
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	request := &setpointv1.RecommendRequest{Spec: wanted.wants.Spec, Pods: pods(tasks, p.skew)}
	request.Scale = &setpointv1.Scale{SpecReplicas: replicas, StatusReplicas: new(present(request.Pods))}
	if err := p.readings(ctx, wanted, tasks, request); err != nil {
		return nil, err
	}
	return &agent.Observation{
		Request:  request,
		InCharge: &shadow.Side{Replicas: replicas}, Against: "the count of the service",
		Notice: notice(&s.Service, tasks, replicas), Native: s,
	}, nil
}

// readings adds the values of the metrics, or their errors.
func (p *Platform) readings(ctx context.Context, wanted *scaled, tasks []swarm.Task, request *setpointv1.RecommendRequest) error {
	if err := samples.AddTo(ctx, p.options.Sources, wanted.metrics, request); err != nil || p.options.Usage != nil {
		return err
	}
	usage := usageOf(wanted.wants)
	if len(usage) == 0 {
		return nil
	}
	problem := "the agent has no source of usage: see --nodes-address and --usage-source"
	if p.options.Nodes != nil {
		request.PodMetrics, problem = reported(p.options.Nodes, tasks)
	}
	for _, name := range usage {
		why := problem
		if why == "" && name == "memory" && !slices.ContainsFunc(request.PodMetrics, hasMemory) {
			why = "the nodes' kernels don't account the memory of containers: docker info warns of it; boot with cgroup_enable=memory"
		}
		if why != "" {
			request.MetricErrors = append(request.MetricErrors, &setpointv1.MetricError{Metric: "Resource:" + name, Message: why})
		}
	}
	return nil
}

// usageOf are the resources that a service is scaled by.
func usageOf(wants *settings.Settings) (names []string) {
	for _, m := range wants.Spec.GetMetrics() {
		if name := m.GetResource().GetName(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Unmeasured are the resources that a service is scaled by and the agent has no source of.
func (p *Platform) Unmeasured(wants *settings.Settings) []string {
	if p.options.Usage != nil || p.options.Nodes != nil {
		return nil
	}
	return usageOf(wants)
}

func hasMemory(m *setpointv1.PodMetrics) bool {
	return slices.ContainsFunc(m.GetContainers(), func(c *setpointv1.ContainerMetrics) bool { return c.GetUsage()["memory"] != "" })
}

// skew is how far this machine's clock is ahead of a node's, as far as known.
func (p *Platform) skew(node string) time.Duration {
	if p.options.Nodes == nil {
		return 0
	}
	return p.options.Nodes.Skew(node)
}

// reported is the usage of running tasks from their nodes' reports, or the problem.
func reported(store *nodes.Store, tasks []swarm.Task) (out []*setpointv1.PodMetrics, problem string) {
	var running []nodes.Task
	for i := range tasks {
		if tasks[i].Status.State == swarm.TaskStateRunning {
			running = append(running, nodes.Task{ID: tasks[i].ID, Node: tasks[i].NodeID})
		}
	}
	usage, problem := store.Usage(time.Now(), running)
	for _, u := range usage {
		values := map[string]string{"cpu": strconv.FormatInt(u.CPU, 10) + "n"}
		if u.Memory > 0 {
			values["memory"] = strconv.FormatInt(u.Memory, 10)
		}
		out = append(out, &setpointv1.PodMetrics{
			Pod: u.Task, Timestamp: timestamppb.New(u.At), WindowSeconds: u.Window,
			Containers: []*setpointv1.ContainerMetrics{{Name: container, Usage: values}},
		})
	}
	slices.SortFunc(out, func(a, b *setpointv1.PodMetrics) int { return cmp.Compare(a.GetPod(), b.GetPod()) })
	return out, problem
}

// Apply implements agent.Platform.
func (p *Platform) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	s := seen.Native.(*service)
	if hold := updateHold(&s.Service, o.Native.(*scaled).wants, change); hold != nil {
		return &agent.HoldError{Hold: *hold}
	}
	writing, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	err := p.engine.scale(writing, s, change.To)
	// The version is that of the whole service. Even if only the image changed, the count is
	// decided again.
	if errors.Is(err, errOutOfSequence) {
		return agent.ErrMoved
	}
	if err != nil {
		return agent.Written(change.To, err, func() (int32, error) {
			reading, cancel := context.WithTimeout(ctx, p.options.Timeout)
			defer cancel()
			s, err := p.engine.inspect(reading, s.ID)
			if err != nil {
				return 0, err
			}
			return replicasOf(&s.Service)
		})
	}
	return nil
}

// The intervals of lists of services: soon after an event, and regularly in case events were
// lost.
const (
	afterEvent  = time.Second
	resyncEvery = 30 * time.Second
)

// Watch implements agent.Watched.
func (p *Platform) Watch(ctx context.Context, changed func(agent.Key)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := p.engine.reopen(); err != nil {
		return err
	}
	// The stream is opened before the list, so that no change is missed in between.
	happened, failed := p.engine.events(ctx)
	known := map[agent.Key]string{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	listed, looked := time.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("events: %w", err)
		case <-happened:
			timer.Reset(max(time.Until(listed.Add(afterEvent)), 0))
			continue
		case <-timer.C:
		}
		if err := p.list(ctx, known, changed); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			err = fmt.Errorf("services: %w", err)
			p.listErr.Store(&err)
			return err
		}
		p.listed.Store(true)
		looked = p.lookForRivals(ctx, looked)
		listed = time.Now()
		timer.Reset(resyncEvery)
	}
}

// list notifies about services that changed since the last list.
func (p *Platform) list(ctx context.Context, known map[agent.Key]string, changed func(agent.Key)) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	p.gone.Range(func(key, _ any) bool {
		delete(known, key.(agent.Key))
		p.gone.Delete(key)
		return true
	})
	services, err := p.engine.Services(ctx)
	if err != nil {
		return err
	}
	there := map[agent.Key]bool{}
	for i := range services {
		key := KeyOf(&services[i])
		there[key] = true
		if now := services[i].ID + "\n" + revision(services[i].Spec.Labels); known[key] != now {
			known[key] = now
			changed(key)
		}
	}
	for key := range known {
		if !there[key] {
			delete(known, key)
			changed(key)
		}
	}
	return nil
}

// Ready returns why the services are not known yet; nil: they have been listed once.
func (p *Platform) Ready() error {
	if p.listed.Load() {
		return nil
	}
	if err := p.listErr.Load(); err != nil {
		return *err
	}
	return errors.New("the services have not been listed yet")
}
