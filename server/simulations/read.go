package simulations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// simulated is a parsed request.
type simulated struct {
	world *simulation.Scenario
	// runs are one for each spec, or for each rule of a fleet.
	runs []simulation.Column
}

// simulationReader parses a request, and collects what is wrong with it.
type simulationReader struct {
	req        *setpointv1.SimulateRequest
	defaults   recommender.Options
	violations []validation.Violation
}

func (r *simulationReader) refuse(field, format string, args ...any) {
	r.violations = append(r.violations, validation.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// readSimulation parses a structurally valid request.
func readSimulation(ctx context.Context, req *setpointv1.SimulateRequest, defaults recommender.Options) (*simulated, []validation.Violation) {
	r := &simulationReader{req: req, defaults: defaults}
	specs := r.specs()
	if len(r.violations) > 0 {
		return nil, r.violations
	}
	s := &simulated{}
	if req.GetScenario() != "" {
		s.world = r.scenario(ctx)
	} else {
		s.world = r.workload(&specs[0].Autoscaler.Spec)
	}
	if len(r.violations) > 0 {
		return nil, r.violations
	}
	var all []*simulation.Autoscaler
	for i := range specs {
		all = append(all, specs[i].Autoscaler)
	}
	if err := s.world.PacedBy(all...); err != nil {
		field := "syncPeriod"
		if req.GetScenario() != "" {
			field = "scenario.loop.syncPeriod"
		}
		r.refuse(field, "Required value: %v", err)
		return nil, r.violations
	}
	if s.world.Fleet != nil && len(specs) > 1 {
		r.refuse("specs", "Too many: %d: the scenario has a fleet, whose rules are compared by one spec", len(specs))
		return nil, r.violations
	}
	for i := range specs {
		for _, err := range flat(specs[i].Check(s.world)) {
			field, what := r.problem(i, err)
			r.refuse(field, "%s", what)
		}
	}
	r.violations = validation.Distinct(r.violations) // the world is checked with each spec
	s.runs = s.world.Columns(specs)
	return s, r.violations
}

// ofTheWorld matches the paths that Check has of a scenario, as opposed to an autoscaler.
var ofTheWorld = regexp.MustCompile(`^(duration|loop|load|start|price|workload|events|fleet)\b`)

// fields are where a request without a scenario has what Check names so.
var fields = map[string]string{
	"duration": "duration", "loop.syncPeriod": "syncPeriod", "load": "load", "start": "startTime",
	"workload.replicas": "workload.initialReplicas", "workload.startup": "workload.startupDelay",
}

// problem is what a check of the world with a spec has found, by the field.
func (r *simulationReader) problem(i int, err error) (field, what string) {
	path, problem, found := strings.Cut(err.Error(), ": ")
	if found && r.req.GetScenario() != "" && ofTheWorld.MatchString(path) {
		return "scenario." + path, strings.ReplaceAll(problem, "\n", "; ")
	}
	if field, found = fields[path]; found && r.req.GetScenario() == "" {
		return field, problem
	}
	return r.specField(i), err.Error()
}

// flat returns the joined errors one by one.
func flat(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		return joined.Unwrap()
	}
	return []error{err}
}

// specField is where the request has a spec.
func (r *simulationReader) specField(i int) string {
	if len(r.req.GetSpecs()) > 0 {
		return fmt.Sprintf("specs[%d].spec", i)
	}
	return "spec"
}

// specs reads the specs to try.
func (r *simulationReader) specs() []simulation.Column {
	asked := r.req.GetSpecs()
	switch {
	case len(asked) == 0 && r.req.GetSpec() == nil:
		r.refuse("spec", "Required value, unless specs is set")
		return nil
	case len(asked) > 0 && r.req.GetSpec() != nil:
		r.refuse("spec", "Forbidden: specs is set")
		return nil
	case len(asked) == 0:
		return []simulation.Column{{Autoscaler: r.autoscaler(0, r.req.GetSpec(), r.req.GetOptions(), nil)}}
	}
	var all []simulation.Column
	seen := make(map[string]bool)
	for i, spec := range asked {
		name, options := spec.GetName(), spec.GetOptions()
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		if seen[name] {
			r.refuse(fmt.Sprintf("specs[%d].name", i), "Duplicate value: %q", name)
		}
		seen[name] = true
		if options == nil {
			options = r.req.GetOptions()
		}
		all = append(all, simulation.Column{Name: name, Autoscaler: r.autoscaler(i, spec.GetSpec(), options, spec.GetStages())})
	}
	return all
}

// autoscaler reads a spec like that of a recommendation; own are its stages, nil: the request's count.
func (r *simulationReader) autoscaler(i int, spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions, own *setpointv1.Stages) *simulation.Autoscaler {
	in, violations := conversion.Input(&setpointv1.RecommendRequest{
		Target: "clusters/simulation/namespaces/simulation/targets/simulation", Spec: spec, Options: options, Scale: &setpointv1.Scale{},
	}, r.defaults)
	violations = append(violations, validation.Spec(spec, validation.SpecOptions{ScaleToZero: in.Options.ScaleToZero})...)
	refuse := func(violations []validation.Violation, shared bool) {
		for _, v := range violations {
			if len(r.req.GetSpecs()) > 0 && !shared {
				v.Field = fmt.Sprintf("specs[%d].%s", i, v.Field)
			}
			r.violations = append(r.violations, v)
		}
	}
	refuse(validation.Distinct(violations), false)
	plan, violations := conversion.Stages(spec, cmp.Or(own, r.req.GetStages()), in)
	refuse(violations, own == nil && r.req.GetStages() != nil)
	r.violations = validation.Distinct(r.violations)
	return &simulation.Autoscaler{Namespace: in.Namespace, Spec: in.Spec, Options: in.Options, Stages: plan}
}

// scenario reads the world from a scenario.
func (r *simulationReader) scenario(ctx context.Context) *simulation.Scenario {
	req := r.req
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"workload", req.GetWorkload() != nil}, {"load", len(req.GetLoad()) > 0}, {"duration", req.GetDuration() != nil},
		{"syncPeriod", req.GetSyncPeriod() != nil}, {"startTime", req.GetStartTime() != nil},
	} {
		if f.set {
			r.refuse(f.name, "Forbidden: it is part of the scenario")
		}
	}
	world, err := scenario.Read(ctx, "scenario", []byte(req.GetScenario()), r.seed(), func(name string) ([]byte, error) {
		for _, f := range req.GetFiles() {
			if f.GetName() == name {
				return []byte(f.GetContent()), nil
			}
		}
		return nil, errors.New("the request's files have none of that name")
	})
	for _, err := range flat(err) {
		r.refuse("scenario", "%v", err)
	}
	return world
}

func (r *simulationReader) seed() *uint64 {
	if r.req.Seed == nil {
		return nil
	}
	seed := uint64(r.req.GetSeed())
	return &seed
}

// sampleAge is the default age of samples of metrics other than resources.
const sampleAge = 15 * time.Second

// workload reads the world from a workload and its load. Usage is assigned to the metrics of
// the spec.
func (r *simulationReader) workload(spec *recommender.Spec) *simulation.Scenario {
	req, asked := r.req, r.req.GetWorkload()
	if asked == nil {
		r.refuse("workload", "Required value, unless scenario is set")
	}
	if len(req.GetLoad()) == 0 {
		r.refuse("load", "Required value, unless scenario is set")
	}
	if len(req.GetFiles()) > 0 {
		r.refuse("files", "Forbidden without a scenario")
	}
	if len(r.violations) > 0 {
		return nil
	}
	world := &simulation.Scenario{Start: time.Unix(0, 0).UTC(), Seed: 1, Duration: req.GetDuration().AsDuration()}
	if t := req.GetStartTime(); t != nil {
		world.Start = t.AsTime()
	}
	if seed := r.seed(); seed != nil {
		world.Seed = *seed
	}
	world.Loop.SyncPeriod = req.GetSyncPeriod().AsDuration()
	points := make([]simulation.Point, 0, len(req.GetLoad()))
	for _, p := range req.GetLoad() {
		points = append(points, simulation.Point{At: p.GetOffset().AsDuration(), Value: p.GetValue()})
	}
	if req.GetDuration() == nil {
		world.Duration = points[len(points)-1].At
	}
	var err error
	if world.Load, err = simulation.NewTrace(points); err != nil {
		r.refuse("load", "%v", err)
	}
	w := &world.Workload
	w.Replicas, w.Startup.From = asked.InitialReplicas, asked.GetStartupDelay().AsDuration()
	r.containers(w, asked.GetPodTemplate())
	r.usage(w, spec)
	return world
}

// containers reads the template of the pods.
func (r *simulationReader) containers(w *simulation.Workload, pod *setpointv1.Pod) {
	for i, c := range pod.GetContainers() {
		container := simulation.Container{Name: c.GetName()}
		for _, resource := range []string{"cpu", "memory"} {
			if text, has := c.GetRequests()[resource]; has {
				milli := r.amount(fmt.Sprintf("workload.podTemplate.containers[%d].requests[%q]", i, resource), text)
				container.Requests = append(container.Requests, recommender.ResourceUsage{Resource: resource, Milli: int64(math.Ceil(milli))})
			}
		}
		w.Containers = append(w.Containers, container)
	}
	if len(w.Containers) > mostContainers {
		r.refuse("workload.podTemplate.containers", "must have at most %d items", mostContainers)
	}
}

// mostContainers is how many containers a simulated pod may have.
const mostContainers = 20

// usage reads how much a unit of load adds to each metric of the spec.
func (r *simulationReader) usage(w *simulation.Workload, spec *recommender.Spec) {
	asked := r.req.GetWorkload()
	perLoad, idle := asked.GetUsagePerLoad(), asked.GetIdleUsage()
	if len(perLoad) != len(spec.Metrics) {
		r.refuse("workload.usagePerLoad", "must have an item for each of the %d metrics of the spec, in their order; has %d", len(spec.Metrics), len(perLoad))
		return
	}
	if len(idle) > len(perLoad) {
		r.refuse("workload.idleUsage", "must have at most an item for each of the %d metrics of the spec; has %d", len(spec.Metrics), len(idle))
		return
	}
	delay := sampleAge
	if d := asked.GetMetricDelay(); d != nil {
		delay = d.AsDuration()
	}
	first := make(map[string]int)
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		u := simulation.Usage{Metric: simulation.MetricName(m)}
		u.PerLoad = r.amount(fmt.Sprintf("workload.usagePerLoad[%d]", i), perLoad[i])
		if i < len(idle) {
			u.Idle = r.amount(fmt.Sprintf("workload.idleUsage[%d]", i), idle[i])
		}
		if m.Type != recommender.ResourceMetric && m.Type != recommender.ContainerResourceMetric {
			u.Delay = delay
		}
		of, twice := first[u.Metric]
		if !twice {
			first[u.Metric] = i
			w.Usage = append(w.Usage, u)
			continue
		}
		before := w.Usage[slices.IndexFunc(w.Usage, func(of simulation.Usage) bool { return of.Metric == u.Metric })]
		if before.PerLoad != u.PerLoad {
			r.refuse(fmt.Sprintf("workload.usagePerLoad[%d]", i), "must be that of metrics[%d], which has the same name: %s", of, u.Metric)
		}
		if i < len(idle) && before.Idle != u.Idle {
			r.refuse(fmt.Sprintf("workload.idleUsage[%d]", i), "must be that of metrics[%d], which has the same name: %s", of, u.Metric)
		}
	}
}

// amount reads a quantity of at least 0, in milli-units, of which there may be parts.
func (r *simulationReader) amount(field, text string) float64 {
	milli, inRange, err := quantity.ParseFine(text)
	switch {
	case err != nil || milli < 0:
		r.refuse(field, `Invalid value: %q: must be a quantity of at least 0, such as "250m" or "1Gi"`, apierror.Clip(text))
		return 0
	case !inRange || milli > math.MaxInt64/1000:
		r.refuse(field, "Invalid value: %q: must be at most 9223372036854", apierror.Clip(text))
		return 0
	}
	return milli
}
