package playground

import (
	"fmt"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
)

// stagesAnnotation has the stages of a HorizontalPodAutoscaler, as JSON.
const stagesAnnotation = "setpoint.dev/stages"

// annotated reads the stages of an annotation.
func (s *spec) annotated(v document.Value) {
	text, ok := v.Text()
	if !ok {
		return
	}
	m := &setpointv1.Stages{}
	err := document.Read("", []byte(text), func(root document.Value) { reader{}.message(root, m) })
	if err != nil {
		v.Refuse("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	s.stages, s.stagesAt = m, v.Path()
}

// stagesOf reads stages that are a field.
func (s *spec) stagesOf(v document.Value) {
	s.stages, s.stagesAt = &setpointv1.Stages{}, v.Path()
	reader{seconds: true}.message(v, s.stages)
}

// plan gives the autoscaler its stages.
func (a *asked) plan(s *spec) {
	in := &recommender.Input{Namespace: s.namespace, Spec: s.autoscaler.Spec, Options: s.autoscaler.Options}
	plan, violations := conversion.Stages(s.message, s.stages, in)
	for _, v := range violations {
		if below, is := strings.CutPrefix(v.Field, "stages"); is {
			v.Field = s.stagesAt + below
		}
		a.problems = append(a.problems, Problem{In: s.name, Line: s.lines.Of(v.Field), Path: v.Field, Text: v.Description})
	}
	s.autoscaler.Stages = plan
}

// misplaced says where the stages of a spec belong that is exported as another kind; empty: they move with it.
func (s *spec) misplaced(kind string) string {
	switch inSpec := strings.HasPrefix(s.stagesAt, "spec."); {
	case s.stages == nil || inSpec == (kind == autoscaler):
		return ""
	case inSpec:
		return fmt.Sprintf("%s has no place for stages in its spec: write them as JSON into the annotation %s", kind, stagesAnnotation)
	}
	return fmt.Sprintf("%s has its stages in spec.stages, not in an annotation: move them", kind)
}

// withoutSchedules are stages without schedules: what lint says of these depends on the time.
func withoutSchedules(p *stages.Plan) *stages.Plan {
	if p == nil {
		return nil
	}
	out := *p
	out.Schedules = nil
	return &out
}
