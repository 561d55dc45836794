package generate

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// The stages that scenarios have around the decision. Mixed scenarios have several of them.
const (
	Schedules      = "schedules"
	PacedSchedules = "paced-schedules"
	Freshness      = "freshness"
	ZeroGuards     = "zero-guards"
	Idle           = "idle"
	Surge          = "surge"
	Fallbacks      = "fallbacks"
	Voters         = "voters"
	Floors         = "floors"
	Caps           = "caps"
	Combine        = "combine"
	Window         = "window-through-failures"
	Reversals      = "reversals"
	Overrides      = "overrides"
)

// Proposing are the stages that replace proposals of metrics. The controller has a proposal of that
// number from a metric without tolerance only.
var Proposing = []string{PacedSchedules, Fallbacks, Voters, Caps, Combine, Window}

// Around is what is around the decision of a step.
type Around struct {
	Stages    *setpointv1.Stages
	Proposals []*setpointv1.Proposal
	// Overrides are created before the step.
	Overrides []Override
}

// Override is an override of a place.
type Override struct {
	// Level is 1 for the cluster, 2 for the namespace and 3 for the target.
	Level int
	*setpointv1.Override
}

// Drawer draws what is around the steps of one scenario.
type Drawer struct {
	random
	stages []string
	start  time.Time
	// plan has the stages that name no metric. The others are by the metric's name, so that they
	// stay with it when somebody edits the spec.
	plan      *setpointv1.Stages
	fallbacks map[string]*setpointv1.MetricFallback
	guards    map[string]*setpointv1.ZeroGuard
	active    map[string]string
	overrides int
}

// NewDrawer returns a drawer of those stages, for a scenario that starts at that instant.
func NewDrawer(seed uint64, version string, start time.Time, stages ...string) *Drawer {
	d := &Drawer{
		random: newRandom(seed, "stages of "+version), stages: stages, start: start, plan: &setpointv1.Stages{},
		fallbacks: map[string]*setpointv1.MetricFallback{}, guards: map[string]*setpointv1.ZeroGuard{}, active: map[string]string{},
	}
	guards := &setpointv1.Guards{IgnoreSurge: d.has(Surge)}
	for i := range d.between(1, 3) {
		if d.has(Schedules) {
			d.plan.Schedules = append(d.plan.Schedules, d.schedule("at-once-"+strconv.Itoa(i), false))
		}
		if d.has(PacedSchedules) {
			d.plan.Schedules = append(d.plan.Schedules, d.schedule("paced-"+strconv.Itoa(i), true))
		}
	}
	if d.has(Freshness) {
		d.plan.Freshness = &setpointv1.Freshness{MaxSampleAge: durationpb.New(d.seconds(10, 60))}
		if d.chance(0.5) {
			d.plan.Freshness.FutureTolerance = durationpb.New(d.seconds(0, 20))
		}
	}
	if d.has(Reversals) {
		guards.Reversals = &setpointv1.ReversalBudget{Count: int32(oneOf(d.random, 1, 1, 2, 3)), Period: durationpb.New(d.seconds(60, oneOf(d.random, 600, 7200, 86400)))}
		if d.chance(0.7) {
			guards.Reversals.Hold = durationpb.New(d.seconds(60, oneOf(d.random, 600, 7200, 86400)))
		}
	}
	if d.has(Surge) || d.has(Reversals) {
		d.plan.Guards = guards
	}
	d.plan.WindowThroughFailures = d.has(Window)
	if d.has(Combine) {
		d.plan.Combine = &setpointv1.Combine{Method: oneOf(d.random, "MIN", "QUORUM", "WEIGHTED", "SUM", "MAX")}
	}
	if d.has(Idle) {
		d.plan.Idle = &setpointv1.IdleScaling{Cooldown: durationpb.New(d.seconds(0, 200))}
		if d.chance(0.5) {
			d.plan.Idle.InitialCooldown = durationpb.New(d.seconds(0, 400))
		}
	}
	return d
}

func (d *Drawer) has(stage string) bool { return slices.Contains(d.stages, stage) }

// zones have wall clocks that are set forward and back, by an hour and by half of one.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "America/St_Johns"}

// schedule returns a schedule that is likely to begin or end in the scenario.
func (d *Drawer) schedule(name string, paced bool) *setpointv1.Schedule {
	s := &setpointv1.Schedule{Name: name, TimeZone: oneOf(d.random, zones...), Suspended: d.chance(0.05)}
	near := func() string {
		zone, err := time.LoadLocation(s.TimeZone)
		if err != nil {
			panic(err) // they are in the database
		}
		at := d.start.In(zone).Add(d.seconds(-3600, 1200))
		return pick(d.random, []weighted[string]{
			{4, fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())},
			{2, fmt.Sprintf("%d * * * *", at.Minute())},
			{2, fmt.Sprintf("*/%d * * * *", d.between(2, 30))},
			{1, fmt.Sprintf("%d %d * * %d", at.Minute(), at.Hour(), at.Weekday())},
			{1, fmt.Sprintf("%d,%d %d-%d * * 1-5", at.Minute(), (at.Minute()+20)%60, at.Hour()/2, at.Hour())},
			{1, fmt.Sprintf("%d %d %d * %d", at.Minute(), at.Hour(), at.Day(), (at.Weekday()+1)%7)},
		})
	}
	if d.chance(0.2) {
		s.At = timestamppb.New(d.start.Add(d.seconds(-600, 600)))
	} else {
		s.Cron = near()
	}
	if d.chance(0.6) {
		s.Duration = durationpb.New(d.seconds(60, oneOf(d.random, 300, 3600, 2*24*3600)))
	} else if s.EndCron = near(); s.EndCron == s.Cron {
		s.EndCron = "59 23 * * *"
	}
	which := d.IntN(3)
	if which != 1 {
		n := int32(d.between(0, 30))
		s.MinReplicas = &n
		if d.chance(0.4) {
			s.RampUp = durationpb.New(d.seconds(0, 3600))
		}
		if d.chance(0.4) {
			s.RampDown = durationpb.New(d.seconds(0, 3600))
		}
	}
	if which != 0 {
		n := s.GetMinReplicas() + int32(d.between(1, 12))
		s.MaxReplicas = &n
	}
	s.MinPace, s.MaxPace = "AT_ONCE", "AT_ONCE"
	if paced {
		s.MinPace, s.MaxPace = "PACED", "PACED"
	}
	return s
}

// MetricName is the name of a metric of a spec in stages.
func MetricName(m *autoscalingv2.MetricSpec) string {
	kind := string(m.Type) + ":"
	switch {
	case m.Resource != nil:
		return kind + string(m.Resource.Name)
	case m.ContainerResource != nil:
		return kind + string(m.ContainerResource.Name) + ":" + m.ContainerResource.Container
	case m.Pods != nil:
		return kind + m.Pods.Metric.Name
	case m.Object != nil:
		return kind + m.Object.Metric.Name
	case m.External != nil:
		return kind + m.External.Metric.Name
	}
	return kind
}

// unique are the indexes of the metrics whose name no other one has.
func unique(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []int {
	var out []int
	for i := range spec.Metrics {
		name, n := MetricName(&spec.Metrics[i]), 0
		for j := range spec.Metrics {
			if MetricName(&spec.Metrics[j]) == name {
				n++
			}
		}
		if n == 1 {
			out = append(out, i)
		}
	}
	return out
}

// Next draws what is around a step of an autoscaler with that spec.
func (d *Drawer) Next(spec *autoscalingv2.HorizontalPodAutoscalerSpec, config *recording.Config, step *recording.Step) Around {
	s := &setpointv1.Stages{
		Freshness: d.plan.GetFreshness(), Schedules: d.plan.GetSchedules(), Guards: d.plan.GetGuards(),
		WindowThroughFailures: d.plan.GetWindowThroughFailures(),
	}
	for _, i := range unique(spec) {
		m := &spec.Metrics[i]
		name, isTotal := MetricName(m), m.Object != nil || m.External != nil
		if d.has(ZeroGuards) && isTotal {
			s.ZeroGuards = append(s.ZeroGuards, kept(d.guards, name, d.guard))
		}
		if d.has(Fallbacks) {
			s.Fallbacks = append(s.Fallbacks, kept(d.fallbacks, name, d.fallback))
		}
	}
	s.Combine = d.combine(spec)
	if spec.MinReplicas != nil && *spec.MinReplicas == 0 && config.ScaleToZero {
		s.Idle = d.idle(spec)
	}
	return Around{Stages: s, Proposals: d.proposals(spec, step.Time), Overrides: d.newOverrides(step)}
}

func kept[T any](of map[string]T, name string, draw func(name string) T) T {
	v, ok := of[name]
	if !ok {
		v = draw(name)
		of[name] = v
	}
	return v
}

func (d *Drawer) guard(metric string) *setpointv1.ZeroGuard {
	g := &setpointv1.ZeroGuard{Metric: metric, Confirm: durationpb.New(d.seconds(1, 200))}
	if d.chance(0.7) {
		g.DropPercent = int32(d.between(50, 100))
	}
	return g
}

func (d *Drawer) fallback(metric string) *setpointv1.MetricFallback {
	f := &setpointv1.MetricFallback{Metric: metric, FailureDuration: durationpb.New(d.seconds(0, 60))}
	switch d.IntN(4) {
	case 0:
		f.Ignore = true
		return f
	case 1:
		f.LastGood = &setpointv1.LastGood{MaxAge: durationpb.New(d.seconds(1, 300))}
	default:
		n := int32(d.between(1, 25))
		f.Replicas = &n
	}
	if d.chance(0.3) {
		f.Direction = "UP_ONLY"
	}
	return f
}

func (d *Drawer) combine(spec *autoscalingv2.HorizontalPodAutoscalerSpec) *setpointv1.Combine {
	if d.plan.GetCombine() == nil {
		return nil
	}
	c := &setpointv1.Combine{Method: d.plan.GetCombine().GetMethod()}
	switch c.Method {
	case "QUORUM":
		c.Quorum = int32(d.between(1, len(spec.Metrics)))
	case "WEIGHTED":
		if len(unique(spec)) < len(spec.Metrics) {
			return nil
		}
		c.Weights = map[string]string{}
		for i := range spec.Metrics {
			c.Weights[MetricName(&spec.Metrics[i])] = oneOf(d.random, "1", "0.5", "2", "0.333", "1.25")
		}
	}
	return c
}

func (d *Drawer) idle(spec *autoscalingv2.HorizontalPodAutoscalerSpec) *setpointv1.IdleScaling {
	if d.plan.GetIdle() == nil {
		return nil
	}
	possible := false
	idle := &setpointv1.IdleScaling{Cooldown: d.plan.GetIdle().GetCooldown(), InitialCooldown: d.plan.GetIdle().GetInitialCooldown(), Activation: map[string]string{}}
	for _, i := range unique(spec) {
		m := &spec.Metrics[i]
		if m.Object == nil && m.External == nil {
			continue
		}
		name := MetricName(m)
		target := &autoscalingv2.MetricTarget{}
		if m.Object != nil {
			target = &m.Object.Target
		} else {
			target = &m.External.Target
		}
		value := kept(d.active, name, func(string) string {
			if d.chance(0.2) {
				return "" // unnamed: 0
			}
			return strconv.FormatInt(int64(float64(max(0, targetMilli(target)))*oneOf(d.random, 0, 0.5, 1, 3)), 10) + "m"
		})
		if possible = true; value != "" {
			idle.Activation[name] = value
		}
	}
	if !possible {
		return nil
	}
	return idle
}

// proposals are a few, some of which have expired or expire at once.
func (d *Drawer) proposals(spec *autoscalingv2.HorizontalPodAutoscalerSpec, now time.Time) []*setpointv1.Proposal {
	var out []*setpointv1.Proposal
	for _, of := range [][2]string{{"VOTER", Voters}, {"FLOOR", Floors}, {"CAP", Caps}} {
		if !d.has(of[1]) {
			continue
		}
		for i := range d.IntN(3) {
			out = append(out, &setpointv1.Proposal{
				Name: fmt.Sprintf("%s-%d", of[1], i), Role: of[0],
				Replicas:   int32(d.between(0, int(min(spec.MaxReplicas, 60))+3)),
				ExpireTime: timestamppb.New(now.Add(oneOf(d.random, time.Minute, time.Hour, 0, -time.Second, 1))),
			})
		}
	}
	return out
}

// newOverrides draws overrides that begin now or soon, at most four in a scenario.
func (d *Drawer) newOverrides(step *recording.Step) []Override {
	if !d.has(Overrides) || d.overrides >= 4 || !d.chance(0.25) {
		return nil
	}
	d.overrides++
	begin := step.Time.Add(oneOf(d.random, 0, 0, d.seconds(1, 60)))
	o := &setpointv1.Override{
		Reason: "drawn", StartTime: timestamppb.New(begin), ExpireTime: timestamppb.New(begin.Add(d.seconds(1, oneOf(d.random, 30, 300, 1800)))),
	}
	n := int32(1)
	if step.Scale != nil {
		n = int32(max(1, int(min(step.Scale.Spec.Replicas, 1<<20))+d.between(-6, 6)))
	}
	switch d.IntN(7) {
	case 0:
		o.Hold = true
	case 1, 2:
		o.Pin = &n
	case 3:
		o.Floor = &n
	case 4:
		o.Ceiling = &n
	case 5:
		o.NoScaleDown = true
	case 6:
		o.NoScaleUp = true
	}
	if d.chance(0.15) && o.Floor == nil && !o.Hold {
		o.NoScaleDown = true
		if o.Ceiling == nil && o.Pin == nil {
			o.Floor = &n
		}
	}
	return []Override{{Level: d.between(1, 3), Override: o}}
}
