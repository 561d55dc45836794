package flight

import (
	"encoding/json"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
)

// begin returns a scenario without calls that begins at a decision: of a new target if target is nil, else of one with the
// service's record of it, including its history.
func begin(d *agent.Decision, target *setpointv1.Target) (*scenario, error) {
	s := &scenario{line: line{Source: "agent"}, target: d.Request.GetTarget(), at: d.At}
	if target == nil {
		return s, nil
	}
	history, err := protojson.Marshal(target.GetHistory())
	if err != nil {
		return nil, err
	}
	s.line.Before, s.status = history, target.GetStatus()
	return s, nil
}

// line is a scenario in a file. Package recording reads it.
type line struct {
	// Name is unique in its file.
	Name string `json:"name"`
	// Source says where the scenario was recorded.
	Source string `json:"source"`
	// Before is the target's history before the first call, a setpoint.v1.History. Nil: none.
	Before json.RawMessage `json:"before,omitempty"`
	Calls  []call          `json:"calls"`
}

// call is a reconcile.
type call struct {
	// Time is the evaluation time.
	Time time.Time `json:"time"`
	// Request, Answer and Report are messages of setpoint.v1: RecommendRequest without per-call
	// fields, RecommendResponse without its explanation, ReportScaleResponse. Report is nil if
	// there was nothing to report.
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer"`
	Report  json.RawMessage `json:"report,omitempty"`
	// ApplyError is why writing the count failed; "" if it succeeded or the count stayed.
	ApplyError string `json:"applyError,omitempty"`
}

// scenario is an incomplete sequence of reconciles of one object.
type scenario struct {
	line line
	// target is the object's name at the service, where a shadow has another one and a history of its own.
	target string
	// at is the instant of its last decision, or of the one before the first.
	at time.Time
	// status is the target's status before the first call.
	status *setpointv1.HorizontalPodAutoscalerStatus
	// bytes is the approximate size in memory.
	bytes int
}

// fits reports whether a decision follows those of the scenario, for all that the agent knows: after a pause the service
// may have begun its windows anew, and where its clock was set back it has corrected the history.
func (s *scenario) fits(d *agent.Decision) bool {
	since := d.At.Sub(s.at)
	return s.target == d.Request.GetTarget() && since >= 0 && since <= 2*d.Period
}

// add adds the next decision. After an error the scenario is unchanged.
func (s *scenario) add(d *agent.Decision) error {
	request := without(d.Request, "request_id", "target_uid", "cluster_uid", "explain")
	if len(s.line.Calls) == 0 && s.status != nil {
		// The history at the start of a scenario has no status.
		request.PreviousStatus = s.status
	}
	c := call{Time: d.At}
	var err error
	if c.Request, err = protojson.Marshal(request); err != nil {
		return err
	}
	if c.Answer, err = protojson.Marshal(without(d.Answer, "explanation")); err != nil {
		return err
	}
	if d.Report != nil {
		if c.Report, err = protojson.Marshal(d.Report); err != nil {
			return err
		}
	}
	if d.ApplyError != nil {
		c.ApplyError = d.ApplyError.Error()
	}
	if len(s.line.Calls) == 0 {
		s.line.Name = d.Key.String() + " " + d.At.UTC().Format(time.RFC3339Nano)
	}
	s.line.Calls, s.at = append(s.line.Calls, c), d.At
	s.bytes += 200 + len(c.Request) + len(c.Answer) + len(c.Report) + len(c.ApplyError)
	return nil
}

// without returns a copy of a message without some of its fields. It shares the others.
func without[M proto.Message](m M, fields ...protoreflect.Name) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	for _, name := range fields {
		to.Clear(from.Descriptor().Fields().ByName(name))
	}
	return to.Interface().(M)
}

// write writes the scenario as one line of a recording, with one call of w.Write, so that a crash leaves whole
// lines.
func (s *scenario) write(w io.Writer) error {
	text, err := json.Marshal(&s.line)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
