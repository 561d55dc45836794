//go:build !js

package lint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/simulation"
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

	dump  manifest.Dump
	files []string // of the dump's autoscalers, in their order
	lines lines
	// refused is how many specs the service would refuse.
	refused int
}

// Read takes a file in: autoscalers, and anything else; of that workloads are looked at.
func (l *Linter) Read(name string, r io.Reader) error {
	var head bytes.Buffer
	l.dump.Own, l.dump.Other = true, hpa.Other(name)
	if err := l.dump.Read(name, io.TeeReader(r, &bounded{&head})); err != nil {
		return err
	}
	l.lines.read(name, head.Bytes(), l.dump.Autoscalers[len(l.files):])
	for len(l.files) < len(l.dump.Autoscalers) {
		l.files = append(l.files, name)
	}
	if len(l.files) > MaxAutoscalers {
		return fmt.Errorf("%s: there are more than %d autoscalers", name, MaxAutoscalers)
	}
	return nil
}

// Autoscalers is how many were read.
func (l *Linter) Autoscalers() int { return len(l.files) }

// Refused is how many of these Check could not check.
func (l *Linter) Refused() int { return l.refused }

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
	// The same name twice is one object in two files.
	scalers := make(map[string]map[string]bool)
	for _, a := range l.dump.Autoscalers {
		target := targetOf(a)
		if scalers[target] == nil {
			scalers[target] = make(map[string]bool)
		}
		scalers[target][a.Name] = true
	}
	overlaps := l.overlaps()
	var all []Finding
	var refused []error
	for i, written := range l.dump.Autoscalers {
		a, err := (&hpa.Autoscaler{File: l.files[i], Object: written}).Engine(l.Options(l.dump.Options(written)))
		if err != nil {
			refused = append(refused, err)
			l.refused++
			continue
		}
		of := l.subject(i, written, a, len(scalers[targetOf(written)]))
		of.Overlaps = overlaps[i]
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
			found[k].Line = l.lines.of(l.files[i], written.Namespace, written.Name, found[k].Field)
		}
		all = append(all, found...)
	}
	return all, errors.Join(refused...)
}

// targetOf names the object that an autoscaler scales.
func targetOf(a *autoscalingv2.HorizontalPodAutoscaler) string {
	ref := a.Spec.ScaleTargetRef
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return strings.Join([]string{a.Namespace, group, ref.Kind, cmp.Or(ref.Name, a.Name)}, "/")
}

// overlaps has for each autoscaler the names of others whose workloads select pods that its own
// workload makes, or make pods that its own selects.
func (l *Linter) overlaps() [][]string {
	out := make([][]string, len(l.files))
	type side struct {
		template *manifest.Template
		selector labels.Selector
	}
	sides := make(map[string][]int)
	all := make([]side, len(l.files))
	for i, a := range l.dump.Autoscalers {
		t := l.dump.Template(a)
		if t == nil || t.Selector == "" {
			continue
		}
		if selector, err := labels.Parse(t.Selector); err == nil {
			all[i] = side{t, selector}
			sides[a.Namespace] = append(sides[a.Namespace], i)
		}
	}
	for _, places := range sides {
		for _, i := range places[:min(len(places), maxCompared)] {
			for _, k := range places[:min(len(places), maxCompared)] {
				one, other := &all[i], &all[k]
				if one.template != other.template && (one.selector.Matches(labels.Set(other.template.Labels)) || other.selector.Matches(labels.Set(one.template.Labels))) {
					out[i] = append(out[i], l.dump.Autoscalers[k].Name)
				}
			}
		}
	}
	return out
}

// maxCompared bounds the autoscalers of a namespace whose selectors are compared, each with each.
const maxCompared = 1000

// subject is one of the dump's autoscalers, as rules look at it.
func (l *Linter) subject(i int, written *autoscalingv2.HorizontalPodAutoscaler, a *simulation.Autoscaler, scalers int) *Subject {
	s := &Subject{File: l.files[i], Name: written.Name, Autoscaler: a, Workload: workloadOf(l.dump.Template(written)), Scalers: scalers, Version: l.dump.Version(written)}
	if b := written.Spec.Behavior; b != nil {
		has := func(r *autoscalingv2.HPAScalingRules) bool { return r != nil && len(r.Policies) > 0 }
		s.Behavior, s.Up, s.Down = true, has(b.ScaleUp), has(b.ScaleDown)
	}
	return s
}

func workloadOf(t *manifest.Template) *Workload {
	if t == nil {
		return nil
	}
	return &Workload{
		Replicas: t.Replicas, Applied: t.Applied, Surge: t.MaxSurge, ReadyAfter: t.ReadyAfter(), PodRequests: t.Requests != nil,
		Containers: containersOf(t.Containers), Sidecars: containersOf(t.Sidecars),
	}
}

func containersOf(containers []manifest.TemplateContainer) []Container {
	var out []Container
	for _, c := range containers {
		out = append(out, Container{Name: c.Name, Requests: milliOf(c.Resources.Requests), Limits: milliOf(c.Resources.Limits)})
	}
	return out
}

func milliOf(amounts corev1.ResourceList) map[string]int64 {
	out := make(map[string]int64, len(amounts))
	for name, q := range amounts {
		out[string(name)] = q.MilliValue()
	}
	return out
}
