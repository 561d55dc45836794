package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/samples"
)

// apiVersion is the one of the kind TaskGroup in specs.
const apiVersion = "nomadproject.io/v1"

// ReasonNotScalable means that jobs of the type are not scaled, or that its group has just opted out.
const ReasonNotScalable = "NotScalable"

// Bounds of concurrent reads of statistics: the remaining connections are for all other calls.
const (
	DefaultConcurrency = 16
	MaxConcurrency     = maxConnections * 3 / 4
)

// Options are the settings of a platform. The zero value of a field is its default.
type Options struct {
	// Namespace is the namespace whose groups are scaled; "*": all that the token may see.
	// Default: all.
	Namespace string
	// Region is that of the client's Config.
	Region string
	// Sources provides metrics. Nil: Nomad's statistics only.
	Sources samples.Reader
	// ReadTimeout bounds a read other than of statistics. Default: agent.DefaultRequestTimeout.
	ReadTimeout time.Duration
	// Concurrency bounds the concurrent reads of statistics, at most MaxConcurrency. Default:
	// DefaultConcurrency.
	Concurrency int
	// Log takes the lines. Nil: no log.
	Log *zap.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Namespace = cmp.Or(o.Namespace, "*")
	o.ReadTimeout = cmp.Or(o.ReadTimeout, agent.DefaultRequestTimeout)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.ReadTimeout < 0 || o.Concurrency < 0 || o.Concurrency > MaxConcurrency {
		return o, fmt.Errorf("the timeout and the concurrency of readings must be above 0, the concurrency at most %d", MaxConcurrency)
	}
	if o.Sources == nil {
		o.Sources = &samples.Set{}
	}
	return o, nil
}

// Platform is the adapter for a Nomad region. It implements agent.Watched and agent.Teller.
type Platform struct {
	client  *api.Client
	read    *reader
	options Options

	mu     sync.Mutex
	groups map[agent.Key]*listed // the last list of groups with a scaling policy; guarded by mu
	known  bool                  // policies have been listed; guarded by mu
	turns  turns

	// outdated is the warning about old servers; empty or nil: none. versioned is when their
	// versions were read, and saidOfServers the logged text; both belong to Watch, which runs
	// once at a time.
	outdated      atomic.Pointer[string]
	versioned     time.Time
	saidOfServers string
}

// listed is a group with a scaling policy.
type listed struct {
	group   Group
	policy  string // its id
	version policyVersion
	wants   *wanted // nil: not read yet; guarded by Platform.mu
}

// policyVersion distinguishes versions of a policy. After a restore the index may be lower.
type policyVersion struct {
	modified uint64
	enabled  bool
}

// wanted is the content of a policy.
type wanted struct {
	*Policy
	hold *agent.Hold
}

// kept is the memory of an object. Reconciles of one object never overlap.
type kept struct {
	health      Health
	lastEvent   string    // the last event without a scaling
	lastEventAt time.Time // when the last event of a shadow was written or attempted
	eventError  string    // the logged reason why an event was not written
	// zero is whose the count of 0 is, by zeroReads reads of the events since the job's
	// JobModifyIndex was zeroAt.
	zero      zero
	zeroAt    uint64
	zeroReads int
}

var (
	_ agent.Watched = (*Platform)(nil)
	_ agent.Teller  = (*Platform)(nil)
)

// New returns the platform of a client made by Connect. It opens no connection.
func New(client *api.Client, options Options) (*Platform, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Platform{
		client: client, options: options, groups: map[agent.Key]*listed{},
		read: newReader(client, options.ReadTimeout, options.Concurrency),
	}, nil
}

// Ready returns an error until the policies have been listed.
func (p *Platform) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return errors.New("the scaling policies have not been listed yet")
	}
	return nil
}

// scaled is a group with its policy.
type scaled struct {
	group Group
	*Policy
	kept *kept
}

// Object implements agent.Platform.
func (p *Platform) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	o, err := p.object(ctx, key, before)
	if before != nil && (errors.Is(err, agent.ErrGone) || err == nil && !before.Is(o.UID)) {
		p.turns.wants(before.Native.(*scaled).group, false, 0)
	}
	return o, err
}

func (p *Platform) object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	p.mu.Lock()
	l := p.groups[key]
	p.mu.Unlock()
	if l == nil {
		return nil, agent.ErrGone
	}
	wants, err := p.wants(ctx, l)
	if err != nil {
		return nil, err
	}
	if wants.Policy == nil && wants.hold == nil {
		return nil, agent.ErrGone // not Setpoint's, or the job is stopped
	}
	o := &agent.Object{Key: key, UID: l.policy, Revision: agent.Version(fmt.Sprint(l.version)), Hold: wants.hold}
	if outdated := p.outdated.Load(); outdated != nil {
		o.Warning = *outdated
	}
	if wants.Policy != nil && len(wants.Ignored) > 0 {
		o.Warning = strings.TrimPrefix(o.Warning+"; the policy has keys beside the block "+Key+" that mean nothing to Setpoint: "+agent.Shorten(strings.Join(wants.Ignored, ", ")), "; ")
	}
	group := &scaled{group: l.group, Policy: wants.Policy, kept: &kept{}}
	if before.Is(o.UID) {
		group.kept = before.Native.(*scaled).kept
	}
	o.Native = group
	if wants.hold != nil {
		return o, nil
	}
	o.Period, o.Shadow, o.Options, o.Stages, o.Fleet, o.Spec = wants.Period, wants.Shadow, wants.Options, wants.Stages, wants.Fleet, wants.Spec
	job, err := p.read.job(ctx, l.group)
	switch {
	case err != nil:
		return nil, err
	case job == nil || job.Stop != nil && *job.Stop:
		return nil, agent.ErrGone
	}
	if o.Hold = Unscalable(job); o.Hold != nil {
		return o, nil
	}
	if err := p.readZero(ctx, group, job); err != nil {
		return nil, err
	}
	if group.kept.zero == zeroOfFile {
		o.Options = proto.CloneOf(o.Options)
		o.Options.Profile = profileFromZero
	}
	return o, nil
}

// profileFromZero is the version of the controller that scales up from 0 whoever set that.
const profileFromZero = "v1.28"

// zero is whose a count of 0 is, of a group with a min of 0.
type zero int

const (
	zeroOfOthers zero = iota // somebody scaled to it, and switched the group off; or the count is not 0
	zeroOfFile               // the job file says so: the group is idle
	zeroOwn                  // Setpoint scaled to it: the group is idle
)

// readZero finds out whose a count of 0 is, from the scaling events.
func (p *Platform) readZero(ctx context.Context, wants *scaled, job *api.Job) error {
	group, k := groupOf(job, wants.group.Name), wants.kept
	if wants.Spec.GetMinReplicas() != 0 || group == nil || group.Count == nil || *group.Count != 0 || job.JobModifyIndex == nil {
		k.zero = zeroOfOthers
		return nil
	}
	if k.zeroAt != *job.JobModifyIndex {
		k.zeroAt, k.zeroReads = *job.JobModifyIndex, 0
	}
	if k.zeroReads > 1 { // Nomad stores an event a moment after the count
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	status, _, err := p.client.Jobs().ScaleStatus(wants.group.Job, p.read.options(ctx, wants.group.Namespace))
	if err != nil {
		return denied("scaling events", "read-job", err)
	}
	k.zeroReads++
	events := status.TaskGroups[wants.group.Name].Events // newest first
	last := slices.IndexFunc(events, func(e api.ScalingEvent) bool { return e.Count != nil })
	switch {
	case last < 0 || *events[last].Count != 0:
		k.zero = zeroOfFile
	case events[last].Meta[metaRecommendation] != nil:
		k.zero = zeroOwn
	default:
		k.zero = zeroOfOthers
	}
	return nil
}

// ownZero is the status of a group that Setpoint has scaled to 0, for a service that has forgotten
// that.
var ownZero = &setpointv1.HorizontalPodAutoscalerStatus{
	Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "ScaledToZero", Status: "True", Reason: "ScaledToZero"}},
}

// wants returns the policy of a group, reading each version once.
func (p *Platform) wants(ctx context.Context, l *listed) (*wanted, error) {
	p.mu.Lock()
	wants := l.wants
	p.mu.Unlock()
	if wants != nil {
		return wants, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	scaling, err := p.policy(ctx, l)
	if err != nil {
		return nil, err
	}
	wants = &wanted{}
	wants.Policy, wants.hold = p.Read(l.group, scaling)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.wants = wants
	return wants, nil
}

// policy reads the policy of a group; agent.ErrGone if there is none.
func (p *Platform) policy(ctx context.Context, l *listed) (*api.ScalingPolicy, error) {
	// Nomad checks the capability on the namespace of the request.
	scaling, _, err := p.client.Scaling().GetPolicy(l.policy, p.read.options(ctx, l.group.Namespace))
	if statusOf(err) == http.StatusNotFound {
		return nil, agent.ErrGone
	}
	if err != nil {
		return nil, denied("scaling policy", "read-scaling-policy", err)
	}
	return scaling, nil
}

// Read parses the policy of a group, and checks its metrics against the sources; see [ParsePolicy].
func (p *Platform) Read(g Group, scaling *api.ScalingPolicy) (*Policy, *agent.Hold) {
	policy, hold := ParsePolicy(scaling)
	if policy == nil {
		return nil, hold
	}
	if err := form.Check(p.options.Sources, policy.Metrics); err != nil {
		return nil, &agent.Hold{Reason: agent.ReasonInvalidObject, Message: err.Error()}
	}
	policy.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{ApiVersion: apiVersion, Kind: Kind, Name: KeyOf(g).Name}
	return policy, nil
}

// Unscalable returns why no group of a job can be scaled, whatever its policy; nil: they can.
func Unscalable(job *api.Job) *agent.Hold {
	var why string
	switch {
	case job.IsPeriodic():
		why = "periodic: its runs are jobs of their own"
	case job.IsParameterized():
		why = "parameterized: its runs are jobs of their own"
	case job.Type != nil && *job.Type == api.JobTypeBatch:
		why = "of type batch: Nomad would run its finished allocations again with each count"
	case job.Type != nil && *job.Type != api.JobTypeService:
		why = "of type " + *job.Type + ": it has no count of allocations"
	default:
		return nil
	}
	return &agent.Hold{Reason: ReasonNotScalable, Message: fmt.Sprintf("the job can't be scaled, because it is %s; remove the block %s", why, Key)}
}

// deploying returns the Hold of a job with an active deployment, nil if it has none: Nomad
// refuses counts until the deployment ends.
func (p *Platform) deploying(ctx context.Context, g Group) (*agent.Hold, error) {
	active, err := p.read.activeDeployments(ctx, g)
	if err != nil || len(active) == 0 {
		return nil, err
	}
	return deployingHold(active[0].StatusDescription), nil
}

func deployingHold(state string) *agent.Hold {
	state = cmp.Or(state, "it began just now")
	return &agent.Hold{
		Outcome: agent.OutcomeWaiting, Reason: agent.ReasonDeploying, Silent: true,
		Message: fmt.Sprintf("a deployment of the job is active; Nomad accepts no count until it ends (%s)", agent.Shorten(state)),
	}
}

// Observe implements agent.Platform.
func (p *Platform) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	wants := o.Native.(*scaled)
	job, group, err := p.counted(ctx, wants.group)
	if err != nil {
		return nil, err
	}
	if !optsIn(group.Scaling) { // the list of policies is late
		return nil, &agent.HoldError{Hold: agent.Hold{
			Outcome: agent.OutcomeWaiting, Reason: ReasonNotScalable, Silent: true, Message: "the group, as the job has it now, has no enabled scaling block with a block " + Key,
		}}
	}
	allocations, err := p.read.groupAllocations(ctx, wants.group)
	if err != nil {
		return nil, err
	}
	count := int32(*group.Count)
	request := &setpointv1.RecommendRequest{Spec: wants.Spec, Pods: wants.kept.health.Pods(wants.group.Name, deploys(job, group), allocations)}
	exist, queued := placed(allocations), int32(0)
	if exist < count {
		n, err := p.read.queued(ctx, wants.group)
		if err != nil {
			return nil, err
		}
		queued = min(max(int32(n), 0), count-exist) // it may be of another count
	}
	request.Pods = withQueued(request.Pods, queued)
	request.Scale = &setpointv1.Scale{SpecReplicas: count, StatusReplicas: new(exist + queued)}
	if wants.kept.zero == zeroOwn {
		request.PreviousStatus = ownZero
	}
	if err := p.readings(ctx, wants, allocations, request); err != nil {
		return nil, err
	}
	return &agent.Observation{
		Request:  request,
		InCharge: &shadow.Side{Replicas: count}, Against: "the count of the group",
		Notice: notice(allocations, count, queued), Native: *job.JobModifyIndex,
	}, nil
}

// counted reads a job and its group, which has a count.
func (p *Platform) counted(ctx context.Context, g Group) (*api.Job, *api.TaskGroup, error) {
	job, err := p.read.job(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	if job == nil || job.JobModifyIndex == nil {
		return nil, nil, errors.New("the job is gone")
	}
	group := groupOf(job, g.Name)
	if group == nil || group.Count == nil || *group.Count < 0 || *group.Count > math.MaxInt32 {
		return nil, nil, fmt.Errorf("the job has no group %s with a count", agent.Shorten(g.Name))
	}
	return job, group, nil
}

func groupOf(job *api.Job, name string) *api.TaskGroup {
	for _, g := range job.TaskGroups {
		if g != nil && g.Name != nil && *g.Name == name {
			return g
		}
	}
	return nil
}

// deploys reports whether deployments judge the health of a group's allocations.
func deploys(job *api.Job, group *api.TaskGroup) bool {
	return (job.Type == nil || *job.Type == api.JobTypeService) && group.Update != nil && (group.Update.MaxParallel == nil || *group.Update.MaxParallel > 0)
}

// placed counts allocations as Nomad does: those that should run and have not ended.
func placed(allocations []*Allocation) int32 {
	n, there := int32(0), toRun(allocations)
	for _, a := range allocations {
		if a.counts() && there[a.ID] && !a.replaced(there) {
			n++
		}
	}
	return n
}

// withQueued adds the allocations that Nomad could not place, which are Pending pods: those exist
// before they have a node. All of a group ask for the same resources.
func withQueued(pods []*setpointv1.Pod, queued int32) []*setpointv1.Pod {
	var like *setpointv1.Pod
	if len(pods) > 0 {
		like = pods[len(pods)-1]
	}
	for i := range queued {
		pods = append(pods, &setpointv1.Pod{Name: fmt.Sprintf("queued-%d", i), Phase: "Pending", Containers: like.GetContainers(), InitContainers: like.GetInitContainers()})
	}
	return pods
}

// notice says why allocations don't run, if Nomad could not place them or they have failed; empty: all run, or may be
// about to.
func notice(allocations []*Allocation, count, queued int32) string {
	runs, failed := 0, 0
	for _, a := range allocations {
		switch {
		case a.failed():
			failed++
		case a.counts() && a.DesiredStatus == desiredRun && a.ClientStatus == clientRunning:
			runs++
		}
	}
	var why []string
	if queued > 0 {
		why = append(why, fmt.Sprintf("Nomad has no room for %d", queued))
	}
	if failed > 0 {
		why = append(why, fmt.Sprintf("%d have failed", failed))
	}
	if why == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d run: %s", runs, count, strings.Join(why, ", "))
}

// readings adds the values of the metrics, or their errors.
func (p *Platform) readings(ctx context.Context, wants *scaled, allocations []*Allocation, request *setpointv1.RecommendRequest) error {
	var reading sync.WaitGroup
	var usage []*setpointv1.PodMetrics
	var failure error
	resources := resourcesOf(wants.Spec)
	if len(resources) > 0 {
		reading.Go(func() { usage, failure = p.read.usage(ctx, wants.group.Namespace, allocations) })
	}
	err := samples.AddTo(ctx, p.options.Sources, wants.Metrics, request)
	reading.Wait()
	request.PodMetrics = append(request.PodMetrics, usage...)
	if failure == nil {
		return err
	}
	for _, metric := range resources {
		request.MetricErrors = append(request.MetricErrors, &setpointv1.MetricError{Metric: metric, Message: agent.Shorten(failure.Error())})
	}
	return err
}

// resourcesOf are the metrics of a spec that come from Nomad's statistics, as named in errors.
func resourcesOf(spec *setpointv1.HorizontalPodAutoscalerSpec) []string {
	var out []string
	for _, m := range spec.GetMetrics() {
		switch {
		case m.GetResource() != nil:
			out = append(out, "Resource:"+m.GetResource().GetName())
		case m.GetContainerResource() != nil:
			out = append(out, "ContainerResource:"+m.GetContainerResource().GetName()+":"+m.GetContainerResource().GetContainer())
		}
	}
	return out
}

// Apply implements agent.Platform.
func (p *Platform) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	wants, reconcile := o.Native.(*scaled), ctx
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	// Meanwhile the service is asked on, for its windows.
	hold, err := p.deploying(ctx, wants.group)
	if err != nil {
		return err
	}
	if hold != nil {
		p.turns.wants(wants.group, true, o.Period)
		return &agent.HoldError{Hold: *hold}
	}
	write := func(index uint64) (uint64, error) {
		written, err := Scale(ctx, p.client, wants.group, Scaling{
			Count: new(int64(change.To)), JobModifyIndex: index,
			Message: agent.Shorten(strings.Join(slices.DeleteFunc([]string{
				fmt.Sprintf("%d → %d: %s", change.From, change.To, change.Figures.With(change.Reason)), seen.Notice,
			}, func(text string) bool { return text == "" }), "; ")),
			Meta: map[string]any{
				metaRecommendation: change.RecommendationID, metaReason: change.Why, metaFrom: change.From, metaTo: change.To,
			},
		})
		// Whatever the outcome, cached reads are out of date: the job has another version, and a
		// deployment.
		p.read.written(wants.group)
		if !unsure(err) {
			return written, err
		}
		err = agent.Written(change.To, err, func() (int32, error) {
			job, group, err := p.counted(reconcile, wants.group)
			if err != nil {
				return 0, err
			}
			written = *job.JobModifyIndex
			return int32(*group.Count), nil
		})
		return written, err
	}
	if p.alone(wants.group) {
		_, err = write(seen.Native.(uint64))
	} else {
		err = p.turns.apply(ctx, wants.group, o.Period, seen.Native.(uint64), write)
	}
	var first *firstError
	switch {
	case errors.Is(err, ErrDeploying):
		p.turns.wants(wants.group, true, o.Period)
		return &agent.HoldError{Hold: *deployingHold("")}
	case errors.As(err, &first):
		p.turns.wants(wants.group, true, o.Period)
		return &agent.HoldError{Hold: agent.Hold{Outcome: agent.OutcomeWaiting, Reason: agent.ReasonDeploying, Silent: true, Message: agent.Shorten(err.Error())}}
	case statusOf(err) == http.StatusForbidden:
		return denied("count", "scale-job", err)
	}
	return err
}

// unsure reports whether a write that failed may have been made: nobody answered, or a server that lost another.
func unsure(err error) bool {
	status := statusOf(err)
	said := errors.Is(err, agent.ErrMoved) || errors.Is(err, agent.ErrGone) || errors.Is(err, ErrDeploying) // by Nomad
	return err != nil && !said && (status == 0 || status >= http.StatusInternalServerError)
}

// alone reports whether no other group of a job is Setpoint's.
func (p *Platform) alone(g Group) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.groups {
		if l.group.Job == g.Job && l.group.Namespace == g.Namespace && l.group.Name != g.Name && l.wants != nil && l.wants.Policy != nil {
			return false
		}
	}
	return true
}
