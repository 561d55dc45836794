//go:build !js

package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

// MaxAutoscalers bounds the autoscalers of all files together.
const MaxAutoscalers = 20_000

// ErrTooMany is Check's error for more than MaxAutoscalers.
var ErrTooMany = fmt.Errorf("at most %d autoscalers can be checked at once", MaxAutoscalers)

// Linter gathers files, which may refer to each other's objects.
type Linter struct {
	// Options are the controller's settings for an object with options of its own, nil: with none.
	Options func(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions
	// Scenario is the world of the one autoscaler that is read, nil: none.
	Scenario *simulation.Scenario
	// Ignore are the IDs of rules that are left out, besides those of an object's IgnoreAnnotation.
	Ignore []string
	// Only, if it is set, chooses the autoscalers that Check checks, by their place among Specs; the others are what is
	// beside them.
	Only func(index int) bool
	// Now is when schedules are looked at; the zero time: when Check is called.
	Now time.Time

	dump manifest.Dump
	near besides
	// loose are the autoscalers that are no cluster's objects, as they are stored.
	loose map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.TargetSpec
	files []string // of the dump's autoscalers, in their order
	lines lines
	// scalers are the autoscalers of each target, by cluster, which is empty where they don't say it. beside are all that a
	// cluster has of these, sorted. hpas are all by namespace and name.
	scalers map[string]map[string]map[scaler]bool
	beside  map[[2]string][]scaler
	hpas    map[[2]string]bool
	// siblings are by kind, namespace and file.
	siblings map[string]siblings
	// fleets are those of the stored specs, and named those by their names.
	fleets  map[*autoscalingv2.HorizontalPodAutoscaler]*readFleet
	named   map[string]*fleet.Spec
	invalid int
}

// Refusal is one reason why the service would refuse an autoscaler, of which Check's error has those of all.
type Refusal struct {
	// File, Object and Cluster are as a Finding's.
	File, Object, Cluster string
	// Index is the place of the autoscaler among Specs.
	Index int
	// Err names the file.
	Err error
}

// Error is the reason with its place.
func (r *Refusal) Error() string { return r.Err.Error() }

// Read takes a file in: autoscalers, and anything else; of that workloads are looked at.
func (l *Linter) Read(name string, r io.Reader) error {
	var head document.Head
	if l.loose == nil {
		l.loose = make(map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.TargetSpec)
	}
	l.dump.Own, l.dump.Beside, l.dump.Other = true, l.near.read, hpa.Other(name, l.loose)
	err := l.dump.Read(name, io.TeeReader(r, &head))
	// Those before an error are of this file, too.
	l.lines.read(head.Bytes(), &l.dump, l.dump.Autoscalers[len(l.files):])
	for len(l.files) < len(l.dump.Autoscalers) {
		l.files = append(l.files, name)
	}
	if err != nil {
		return document.Lined(name, head.Bytes(), err)
	}
	if len(l.files) > MaxAutoscalers {
		return fmt.Errorf("%s: there are more than %d autoscalers", name, MaxAutoscalers)
	}
	return nil
}

// Autoscalers is how many were read.
func (l *Linter) Autoscalers() int { return len(l.files) }

// Spec is an autoscaler that was read.
type Spec struct {
	*hpa.Autoscaler
	// Index is its place among all Specs.
	Index int
	// Kind of the object, empty: it is a stored spec.
	Kind string
	// Line of its spec in the file; 0: not known.
	Line int
	// Shadow reports whether it is an Autoscaler that scales nothing.
	Shadow bool
	// Member is the fleet that a manifest's autoscaler is a member of; empty: none.
	Member string
	// Workload and Beside are what its rules look at besides the spec.
	Workload *Workload
	Beside   Beside
	// Err tells of stages that can't be read; Autoscaler has none then.
	Err error
}

// Specs returns all autoscalers that were read, in their order.
func (l *Linter) Specs() []Spec {
	var all []Spec
	for i, object := range l.dump.Autoscalers {
		s := Spec{Index: i, Line: l.lines.of(object, "spec"), Kind: l.kindOf(object), Shadow: l.dump.Shadow(object)}
		if s.Autoscaler, s.Err = hpa.Dumped(l.files[i], &l.dump, object, l.loose[object]); s.Err != nil {
			s.Autoscaler = &hpa.Autoscaler{File: l.files[i], Object: object}
		}
		s.Member, _ = l.dump.Fleet(object) // Check tells
		of := l.subject(i, object, nil)
		s.Workload, s.Beside = of.Workload, of.Beside
		all = append(all, s)
	}
	return all
}

// kindOf is the kind of a manifest; empty: it is none.
func (l *Linter) kindOf(object *autoscalingv2.HorizontalPodAutoscaler) string {
	switch {
	case l.loose[object] != nil:
		return ""
	case l.dump.Version(object) == autoscalingv1.GroupVersion.String():
		return "Autoscaler"
	}
	return cmp.Or(object.Kind, "HorizontalPodAutoscaler") // items of an HorizontalPodAutoscalerList say none
}

// specAlone reads a spec. Its stages, of an annotation, too, are read apart.
func (l *Linter) specAlone(i int, written *autoscalingv2.HorizontalPodAutoscaler) (*simulation.Autoscaler, error) {
	alone := &hpa.Autoscaler{File: l.files[i], Object: written, Stored: &setpointv1.TargetSpec{}}
	return alone.Engine(l.Options(l.dump.Options(written)))
}

// Invalid is how many of these the service would refuse.
func (l *Linter) Invalid() int { return l.invalid }

// Check returns what was found, in the order of the files and of Rules. The error tells of
// specs that the service would refuse; the rest is checked all the same. More than
// MaxAutoscalers are not checked at all: ErrTooMany, which Read has told with the file.
func (l *Linter) Check(ctx context.Context) ([]Finding, error) {
	if len(l.files) > MaxAutoscalers {
		return nil, ErrTooMany
	}
	if l.Scenario != nil && len(l.files) != 1 {
		return nil, fmt.Errorf("a scenario describes one workload, but the files have %d autoscalers: give only the one for that workload", len(l.files))
	}
	l.readScalers()
	l.readFleets()
	overlaps := l.overlaps()
	var all []Finding
	var refused []error
	for i, written := range l.dump.Autoscalers {
		if l.Only != nil && !l.Only(i) {
			continue
		}
		a, err := l.specAlone(i, written)
		if err != nil {
			refused = append(refused, l.refusal(i, err))
			l.invalid++
			continue
		}
		of := l.subject(i, written, a)
		l.rivals(of, written)
		of.Now = l.now()
		own, err := KnownRules(written.Annotations[IgnoreAnnotation])
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %s/%s: metadata.annotations[%s]: %w", l.files[i], written.Namespace, written.Name, IgnoreAnnotation, err))
		}
		of.Ignore = slices.Concat(l.Ignore, own)
		var problems []error
		of.Stages, problems = l.stagesOf(written, a, of.Now)
		if read := l.fleets[written]; read != nil {
			of.Fleet, problems = read.spec, append(problems, read.problems...)
		}
		if of.Member, err = l.memberOf(written, a); err != nil {
			problems = append(problems, err)
		}
		for _, err := range problems {
			refused = append(refused, l.refusal(i, err))
		}
		if len(problems) > 0 {
			l.invalid++
		}
		of.Overlaps, of.AllOverlaps = overlaps[i].names, overlaps[i].all
		if of.Scenario = l.Scenario; of.Scenario != nil {
			if err := simulation.Check(of.Scenario, a); err != nil {
				refused = append(refused, fmt.Errorf("the scenario with %s: %w", l.files[i], err))
				of.Scenario = nil
			}
		}
		found, err := Check(ctx, of)
		if ctx.Err() != nil {
			return nil, err
		}
		refused = append(refused, err)
		for k := range found {
			if stages, ok := strings.CutPrefix(found[k].Field, "spec.stages"); ok && !of.Manifest {
				found[k].Field = "stages" + stages // they are beside the spec
			}
			found[k].Index, found[k].Line, found[k].Cluster = i, l.lineOf(written, found[k].Field), l.cluster(written)
		}
		all = append(all, found...)
	}
	return all, errors.Join(refused...)
}

// refusal adds the place to an error about an autoscaler: the file and the line of each of its lines, or else the object.
func (l *Linter) refusal(i int, err error) *Refusal {
	written := l.dump.Autoscalers[i]
	file, object := l.files[i], written.Namespace+"/"+written.Name
	var placed []error
	for text := range strings.Lines(err.Error()) {
		text = strings.TrimPrefix(strings.TrimSuffix(text, "\n"), file+": ")
		path, _, _ := strings.Cut(text, ": ")
		if at := l.lineOf(written, path); at > 0 {
			placed = append(placed, fmt.Errorf("%s:%d: %s", file, at, text))
		} else {
			placed = append(placed, fmt.Errorf("%s: %s: %s", file, object, text))
		}
	}
	return &Refusal{file, object, l.cluster(written), i, errors.Join(placed...)}
}

// lineOf is the line of a field, or of what holds it; 0: not known. An annotation has the stages of an HPA.
func (l *Linter) lineOf(a *autoscalingv2.HorizontalPodAutoscaler, path string) int {
	if staged := strings.TrimPrefix(path, "spec."); strings.HasPrefix(staged, "stages") {
		switch l.kindOf(a) {
		case "":
			path = staged
		case "Autoscaler":
			path = "spec." + staged
		default:
			path = "metadata.annotations." + autoscalingv1.StagesAnnotation
		}
	}
	return l.lines.of(a, path)
}

// cluster of a stored spec, empty: it does not say it, as no manifest does.
func (l *Linter) cluster(a *autoscalingv2.HorizontalPodAutoscaler) string {
	of, _ := target.Parse(l.loose[a].GetName())
	return of.Cluster
}

// scaler is an autoscaler of a target: the same one twice is one object in two files. kind is empty for a stored spec.
type scaler struct{ kind, name string }

// scales reports whether an autoscaler scales its target: a fleet's members are scaled, and a shadow only watches.
func (l *Linter) scales(a *autoscalingv2.HorizontalPodAutoscaler) bool {
	return l.loose[a].GetFleet() == nil && !l.dump.Shadow(a)
}

// readScalers gathers the autoscalers that scale something.
func (l *Linter) readScalers() {
	l.scalers, l.beside, l.hpas = make(map[string]map[string]map[scaler]bool), make(map[[2]string][]scaler), make(map[[2]string]bool)
	l.siblings = nil // which no autoscaler scales
	for _, a := range l.dump.Autoscalers {
		if !l.scales(a) {
			continue
		}
		key, cluster, kind := targetOf(a), l.cluster(a), l.kindOf(a)
		if l.scalers[key] == nil {
			l.scalers[key] = make(map[string]map[scaler]bool)
		}
		if l.scalers[key][cluster] == nil {
			l.scalers[key][cluster] = make(map[scaler]bool)
		}
		l.scalers[key][cluster][scaler{kind, a.Name}] = true
		if kind == "HorizontalPodAutoscaler" {
			l.hpas[[2]string{a.Namespace, a.Name}] = true
		}
	}
}

// rivals notes which other autoscalers have an autoscaler's target, or its name.
func (l *Linter) rivals(of *Subject, a *autoscalingv2.HorizontalPodAutoscaler) {
	if !l.scales(a) {
		return
	}
	kind := l.kindOf(a)
	of.Namesake = kind == "Autoscaler" && l.hpas[[2]string{a.Namespace, a.Name}]
	all := l.scalersOf(a)
	first, _ := slices.BinarySearchFunc(all, a.Name, func(one scaler, name string) int { return cmp.Compare(one.name, name) })
	itself := func(other scaler) bool {
		return other.name == a.Name && (other.kind == kind || kind == "" || other.kind == "")
	} // or its stored spec
	of.AllScalers = len(all)
	for i := first; i < len(all) && all[i].name == a.Name; i++ {
		if itself(all[i]) {
			of.AllScalers--
		}
	}
	for _, other := range all[:min(len(all), mostSiblings+3)] {
		if !itself(other) && len(of.Scalers) < mostSiblings {
			of.Scalers = append(of.Scalers, cmp.Or(other.kind, "stored spec")+" "+other.name)
		}
	}
}

// scalersOf are the autoscalers of an autoscaler's target, itself included. One that does not say its cluster may be of any.
func (l *Linter) scalersOf(a *autoscalingv2.HorizontalPodAutoscaler) []scaler {
	key := [2]string{targetOf(a), l.cluster(a)}
	all, known := l.beside[key]
	if !known {
		found := make(map[scaler]bool)
		for cluster, some := range l.scalers[key[0]] {
			if cluster == key[1] || cluster == "" || key[1] == "" {
				maps.Copy(found, some)
			}
		}
		all = slices.SortedFunc(maps.Keys(found), func(a, b scaler) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(b.kind, a.kind)) })
		l.beside[key] = all
	}
	return all
}

// stagesOf returns the stages of an autoscaler, read as a request's are, so that bounds beyond the spec's
// are findings; or what is wrong with them.
func (l *Linter) stagesOf(written *autoscalingv2.HorizontalPodAutoscaler, a *simulation.Autoscaler, now time.Time) (*stages.Plan, []error) {
	var violations []hpa.Violation
	spec, own := l.loose[written].GetSpec(), l.loose[written].GetStages()
	if own != nil || conversion.HasFallback(spec) {
		violations = validation.StructureAt("stages", own)
	} else if dumped, err := l.dump.Stages(written); err != nil {
		return nil, []error{err}
	} else if own = dumped; own == nil {
		return nil, nil
	}
	around, more := conversion.Around(&setpointv1.RecommendRequest{Spec: spec, Stages: own}, &recommender.Input{Spec: a.Spec, Options: a.Options}, now)
	var problems []error
	for _, v := range append(violations, more...) {
		problems = append(problems, errors.New(v.String()))
	}
	if problems != nil {
		return nil, problems
	}
	if own := around.Plan.Fallbacks; len(own) > 0 {
		own = own[len(own)-min(len(own), l.dump.SpecFallbacks(written)):]
		for i := range own {
			own[i].OfSpec = true
		}
	}
	return around.Plan, nil
}

func (l *Linter) now() time.Time {
	if l.Now.IsZero() {
		return time.Now()
	}
	return l.Now
}

// IgnoreAnnotation of an autoscaler has the IDs of the rules that are left out for it.
const IgnoreAnnotation = "setpoint.dev/lint-ignore"

// KnownRules reads IDs of rules, separated by commas; the error names those that there are not.
func KnownRules(list string) (ids []string, err error) {
	var unknown []error
	for id := range strings.SplitSeq(list, ",") {
		id = strings.TrimSpace(id)
		switch {
		case slices.ContainsFunc(Rules, func(r Rule) bool { return r.ID == id }):
			ids = append(ids, id)
		case id != "":
			unknown = append(unknown, fmt.Errorf("there is no rule %q%s", id, meant(id)))
		}
	}
	return ids, errors.Join(unknown...)
}

func meant(id string) string {
	var all []string
	for _, r := range Rules {
		all = append(all, r.ID)
	}
	if guess, ok := spelling.Closest(id, all); ok {
		return fmt.Sprintf(", did you mean %q?", guess)
	}
	return ": see " + Page
}

// targetOf names the object that an autoscaler scales.
func targetOf(a *autoscalingv2.HorizontalPodAutoscaler) string {
	return keyOf(a.Namespace, a.Spec.ScaleTargetRef, a.Name)
}

// keyOf names a workload; name is in place of a reference's that has none.
func keyOf(namespace string, ref autoscalingv2.CrossVersionObjectReference, name string) string {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return strings.Join([]string{namespace, group, ref.Kind, cmp.Or(ref.Name, name)}, "/")
}

// subject is one of the dump's autoscalers, as rules look at it.
func (l *Linter) subject(i int, written *autoscalingv2.HorizontalPodAutoscaler, a *simulation.Autoscaler) *Subject {
	template := l.dump.Template(written)
	s := &Subject{
		File: l.files[i], Name: written.Name, Autoscaler: a, Workload: workloadOf(template, l.near.defaults[written.Namespace]), Version: l.dump.Version(written),
		Manifest: l.loose[written] == nil, Defaulted: len(written.Spec.Metrics) == 0,
	}
	for _, q := range l.loose[written].GetQueries() {
		s.Queried = append(s.Queried, q.GetMetric())
	}
	if s.Manifest {
		s.Beside = l.near.of(written, template)
		if l.dump.Shadow(written) {
			s.Beside.ScaledObjects = nil
		}
		if template == nil {
			of := l.siblingsOf(i, written)
			s.Beside.Siblings, s.Beside.AllSiblings = of.names, of.all
		}
	}
	if b := written.Spec.Behavior; b != nil {
		has := func(r *autoscalingv2.HPAScalingRules) bool { return r != nil && len(r.Policies) > 0 }
		s.Behavior, s.Up, s.Down = true, has(b.ScaleUp), has(b.ScaleDown)
	}
	return s
}

// mostSiblings is how many workloads, or autoscalers, a finding names: in a large namespace each of many autoscalers may have as many others.
const mostSiblings = 5

// siblings are workloads that an autoscaler without its target may mean.
type siblings struct {
	names []string // the first ones
	all   int
}

// siblingsOf are the workloads of an autoscaler's file, or of the cluster if it is one's, that no autoscaler scales. All
// autoscalers that may mean the same ones are told the same.
func (l *Linter) siblingsOf(i int, a *autoscalingv2.HorizontalPodAutoscaler) siblings {
	ref, file, applied := a.Spec.ScaleTargetRef, l.files[i], a.UID != ""
	ref.Name = ""
	key := fmt.Sprintf("%s\n%t\n%s", keyOf(a.Namespace, ref, ""), applied, file)
	out, known := l.siblings[key]
	if known {
		return out
	}
	for t := range l.dump.Siblings(a) {
		ref.Name = t.Name
		if near := t.File == file || t.Applied && applied; !near || l.scalers[keyOf(a.Namespace, ref, "")] != nil {
			continue
		}
		if out.all++; out.all <= mostSiblings {
			out.names = append(out.names, t.Name)
		}
	}
	if l.siblings == nil {
		l.siblings = make(map[string]siblings)
	}
	l.siblings[key] = out
	return out
}

// workloadOf is a template with what its namespace gives containers.
func workloadOf(t *manifest.Template, defaults []resources) *Workload {
	if t == nil {
		return nil
	}
	containers := func(all []manifest.TemplateContainer) (out []Container) {
		for _, c := range all {
			one := Container{Name: c.Name, Requests: milliOf(c.Resources.Requests), Limits: milliOf(c.Resources.Limits)}
			fill(one.Requests, one.Limits) // the API server's default
			for _, d := range defaults {
				fill(one.Limits, d.limits)
				fill(one.Requests, d.requests)
			}
			out = append(out, one)
		}
		return out
	}
	return &Workload{
		Replicas: t.Replicas, Applied: t.Applied, Surge: t.MaxSurge, ReadyAfter: t.ReadyAfter(), PodRequests: t.Requests != nil,
		Containers: containers(t.Containers), Sidecars: containers(t.Sidecars),
	}
}

func milliOf(amounts corev1.ResourceList) map[string]int64 {
	out := make(map[string]int64, len(amounts))
	for name, q := range amounts {
		out[string(name)] = q.MilliValue()
	}
	return out
}
