package recording

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// readCalls turns the calls of a scenario into steps. Errors name the field.
func (s *Scenario) readCalls() error {
	if s.Calls == nil {
		if s.Before != nil || s.State != nil {
			return errors.New("before and state: are for a scenario with calls; history is that of steps")
		}
		return nil
	}
	if len(s.Calls) == 0 {
		return errors.New("calls: there are none")
	}
	if s.HPA != nil || s.Steps != nil || s.History != nil {
		return errors.New("calls: are in place of hpa, steps and history")
	}
	if s.Before != nil && s.State != nil {
		return errors.New("before: is in place of state")
	}
	if s.Before != nil {
		var before setpointv1.History
		if err := readMessage(s.Before, &before); err != nil {
			return fmt.Errorf("before: %w", err)
		}
		s.History = HistoryOf(&before)
	}
	for i := range s.Calls {
		step, err := s.Calls[i].step()
		if err != nil {
			return fmt.Errorf("calls[%d].%w", i, err)
		}
		s.Steps = append(s.Steps, *step)
	}
	s.Calls, s.Before = nil, nil
	return nil
}

// step converts the call to a step.
func (c *Call) step() (*Step, error) {
	step := &Step{Time: c.Time, ScaleUpdateError: c.ApplyError, Request: &setpointv1.RecommendRequest{}}
	if err := readMessage(c.Request, step.Request); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if step.Sums, step.Unreported = c.Sums, c.Unreported; c.Sums != nil {
		if err := c.Sums.check(step.Request); err != nil {
			return nil, fmt.Errorf("sums: %w", err)
		}
		step.PlatformDependent = notInSums
	}
	if c.Basis != nil {
		step.Basis = &setpointv1.DecisionBasis{}
		if err := readMessage(c.Basis, step.Basis); err != nil {
			return nil, fmt.Errorf("basis: %w", err)
		}
	}
	if c.Answer == nil {
		return step, nil
	}
	var answer setpointv1.RecommendResponse
	if err := readMessage(c.Answer, &answer); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	var report *setpointv1.ReportScaleResponse
	if c.Report != nil {
		report = &setpointv1.ReportScaleResponse{}
		if err := readMessage(c.Report, report); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	step.Expect = ExpectOf(OutcomeOf(&answer, report, c.ApplyError == ""))
	if c.Sums != nil && answer.GetDesiredReplicas() != answer.GetCurrentReplicas() && c.ApplyError == "" && !c.Unreported {
		step.Expect.Scaled, step.Expect.ScaledTo = true, answer.GetDesiredReplicas()
	}
	return step, nil
}

// notInSums are the fields of an outcome that the service does not keep beside sums: they are not compared.
var notInSums = []string{"events", "currentMetrics", "lastScaleTime", "observedGeneration"}

// readMessage reads a message. It ignores unknown fields of newer agents.
func readMessage(text json.RawMessage, into proto.Message) error {
	if text == nil {
		return errors.New("must be set")
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, into)
}

// called is the request of a step that comes from a call, for a target of the cluster.
func (p *Player) called(step *Step, cluster string) (*setpointv1.RecommendRequest, error) {
	request := proto.CloneOf(step.Request)
	name, ok := target.Parse(request.GetTarget())
	if !ok {
		return nil, fmt.Errorf("%s: %q is not the name of a target", p.scenario.Name, request.GetTarget())
	}
	name.Cluster = cluster
	request.Target = name.String()
	if p.spec != nil {
		recorded := request.GetSpec().GetScaleTargetRef()
		request.Spec, request.Stages = kubernetes.SpecToProto(p.spec), p.stages
		request.Options = replaced(request.GetOptions(), p.own)
		if p.spec.ScaleTargetRef.Kind == "" {
			request.Spec.ScaleTargetRef = recorded
		}
	}
	return request, nil
}
