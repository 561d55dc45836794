package webhook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	kjson "sigs.k8s.io/json"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/settings"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Page is an answer to list.
type Page struct {
	// Targets, each in one page only. What is in one is read by itself, so that a target that
	// can't be read holds no other.
	Targets []json.RawMessage `json:"targets"`
	// NextPageToken asks for the next page. Empty on the last page.
	NextPageToken string `json:"nextPageToken,omitempty"`
}

// Target is a workload that is to be scaled: its name, and its settings.
type Target struct {
	// Namespace and Name are its name: letters, digits and . _ - each; a name does not end
	// with .-shadow. Required.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID changes when a target is recreated. Default: names are never reused.
	UID string `json:"uid,omitempty"`
	// Options are RecommendOptions. Default: the server's.
	Options any `json:"options,omitempty"`
	// Hold is why the target is not to be scaled now. Default: it is.
	Hold *TargetHold `json:"hold,omitempty"`
	// Workload is the settings. Observations lack the metrics that have a source.
	settings.Workload `json:"-"`
}

// form is how targets write settings.
var form = settings.Form{Own: []string{"namespace", "name", "uid", "options", "hold"}, Without: map[string]string{"scaleUpInUpdates": ""}}

// TargetHold is why a target is not to be scaled.
type TargetHold struct {
	// Reason is one word, such as Deploying. Required.
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message,omitempty"`
}

// Question asks for an Observation.
type Question struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Observation is the input of a decision, of one instant.
type Observation struct {
	// Request is a RecommendRequest with at most these fields: scale, pods, podMetrics,
	// customMetrics, externalMetrics, metricErrors and proposals. Required, and its scale too.
	Request json.RawMessage `json:"request"`
	// Version is given back when the count is applied. Default: empty.
	Version string `json:"version,omitempty"`
}

// Application is a count that was decided.
type Application struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// CurrentReplicas is the count that was observed. The answer is 409 if it is another one
	// by now.
	CurrentReplicas int32 `json:"currentReplicas"`
	// DesiredReplicas is the count to set.
	DesiredReplicas int32 `json:"desiredReplicas"`
	// RecommendationID is the same when the call is made again, as after an answer that was
	// lost: what was done is not done twice.
	RecommendationID string `json:"recommendationId"`
	// Reason says why, in a few words: the controller's, then what stages and overrides say. For people.
	Reason string `json:"reason,omitempty"`
	// Version is that of the observation.
	Version string `json:"version,omitempty"`
}

// Failure is the body of an answer with a status of 400 or above.
type Failure struct {
	// Error describes the failure in a sentence.
	Error string `json:"error"`
}

// Bounds of texts.
const (
	maxName    = 240 // and agent.ShadowSuffix
	maxUID     = 128
	maxVersion = 1024
	maxToken   = 1024
	maxMessage = 1024
	// maxTarget bounds what is kept of a target, bytes: thousands of them are.
	maxTarget = 64 << 10
)

var (
	word = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)
)

// strict reads JSON whose keys are all known, spelled as they are, and there once.
func strict(data []byte, into any) error {
	problems, err := kjson.UnmarshalStrict(data, into)
	if err == nil && len(problems) > 0 {
		err = problems[0]
	}
	if err != nil {
		return errors.New(shorten(plain(strings.TrimPrefix(err.Error(), "json: "))))
	}
	return nil
}

// wrongType matches what the library says of a value of another type, which names types of Go.
var wrongType = regexp.MustCompile(`^cannot unmarshal (\w+) into Go (?:value|struct field \w+\.(\S+)) of type (\S+)$`)

// plain words an error of the library for authors in any language.
func plain(text string) string {
	found := wrongType.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	is := "an object"
	switch goType := found[3]; {
	case goType == "string", goType == "bool":
		is = "a " + goType
	case strings.HasPrefix(goType, "int"):
		is = "a whole number"
	case strings.HasPrefix(goType, "[]"):
		is = "a list"
	}
	if text = "must be " + is + ", is of type " + found[1]; found[2] != "" {
		text = found[2] + ": " + text
	}
	return text
}

// message reads a message of the service's contract. What protojson refuses is read by its fields, where a number is a
// quantity, as in the API and in a target's spec, and what is wrong has its path.
func message(field string, data []byte, into proto.Message) error {
	if protojson.Unmarshal(data, into) == nil {
		return nil
	}
	proto.Reset(into)
	var tree any
	if err := strict(data, &tree); err != nil { // such as a key that stands twice, wherever
		return fmt.Errorf("%s: %w", field, err)
	}
	var p typed.Problems
	p.FillMessage(field, tree, into)
	return p.Err()
}

// tree reads a target's own keys, and returns all of them.
func (t *Target) tree(raw []byte) (map[string]any, error) {
	var whole any
	wrong := strict(raw, &whole) // such as a key that stands twice, wherever; the rest is read
	tree, ok := whole.(map[string]any)
	if !ok {
		return nil, cmp.Or(wrong, errors.New("must be an object"))
	}
	keys := map[string]any{}
	for _, key := range form.Own {
		if value, there := tree[key]; there {
			keys[key] = value
		}
	}
	own, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	err = strict(own, t)
	return tree, cmp.Or(wrong, err)
}

// key checks the names of a target, and returns its key.
func (t *Target) key() (agent.Key, error) {
	switch {
	case !target.IsSegment(t.Namespace):
		return agent.Key{}, fmt.Errorf("namespace: must be 1 to %d letters, digits and . _ -, is %q", target.MaxSegment, shorten(t.Namespace))
	case !target.IsSegment(t.Name) || len(t.Name) > maxName || strings.HasSuffix(t.Name, agent.ShadowSuffix):
		return agent.Key{}, fmt.Errorf("name: must be 1 to %d letters, digits and . _ -, not ending with %s, is %q", maxName, agent.ShadowSuffix, shorten(t.Name))
	}
	return agent.Key{Kind: Kind, Namespace: t.Namespace, Name: t.Name}, nil
}

// wanted is what a target wants, read.
type wanted struct {
	// metrics are those that sources are asked for.
	metrics []samples.Metric
}

// object reads a target whose key is known. What is wrong with it holds it.
func (t *Target) object(key agent.Key, raw []byte, tree map[string]any, sources samples.Reader) *agent.Object {
	sum := sha256.Sum256(raw)
	o := &agent.Object{Key: key, UID: t.UID, Revision: agent.Version(hex.EncodeToString(sum[:]))}
	wants, err := t.read(o, tree)
	if err == nil && len(wants.metrics) > 0 {
		err = form.Check(sources, wants.metrics)
	}
	switch {
	case err != nil:
		o.Hold = invalid(err)
	case t.Hold != nil:
		o.Hold = &agent.Hold{Outcome: agent.OutcomeWaiting, Reason: t.Hold.Reason, Message: "the server holds it: " + shorten(cmp.Or(t.Hold.Message, t.Hold.Reason))}
	}
	o.Native = wants
	return o
}

func invalid(err error) *agent.Hold {
	return &agent.Hold{Reason: agent.ReasonInvalidObject, Message: "its entry in the list is invalid: " + err.Error()}
}

// read reads what a target wants.
func (t *Target) read(o *agent.Object, tree map[string]any) (*wanted, error) {
	var p typed.Problems
	if len(t.UID) > maxUID || strings.ContainsFunc(t.UID, unicode.IsControl) {
		o.UID = ""
		p.Add("uid", "must have at most %d bytes and no control characters", maxUID)
	}
	if t.Options != nil {
		o.Options = &setpointv1.RecommendOptions{}
		p.FillMessage("options", t.Options, o.Options)
	}
	if t.Hold != nil && !word.MatchString(t.Hold.Reason) {
		p.Add("hold.reason", "must be one word such as Deploying")
	}
	read, err := form.Read(tree)
	if wrong, ok := errors.AsType[*typed.Error](err); ok {
		p.Under("", wrong.Problems)
	}
	if err := p.Err(); err != nil {
		return &wanted{}, err
	}
	o.Period, o.Shadow, o.Stages, o.Fleet, o.Spec, o.Warning = read.Period, read.Shadow, read.Stages, read.Fleet, read.Spec, strings.Join(read.Warnings, "; ")
	return &wanted{read.Metrics}, nil
}

// request reads an observation. The error says which field is wrong.
func (o *Observation) request(limits Limits) (*setpointv1.RecommendRequest, error) {
	if len(o.Version) > maxVersion {
		return nil, fmt.Errorf("version: is longer than %d bytes", maxVersion)
	}
	if len(o.Request) == 0 {
		return nil, errors.New("request: is required")
	}
	req := &setpointv1.RecommendRequest{}
	var fields map[string]json.RawMessage
	if err := strict(o.Request, &fields); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(observed, name) {
			return nil, fmt.Errorf("request: may only have %s; %q is the agent's, or no field", strings.Join(observed, ", "), shorten(name))
		}
	}
	if err := message("request", o.Request, req); err != nil {
		return nil, err
	}
	samples := len(req.GetPodMetrics()) + len(req.GetCustomMetrics()) + len(req.GetExternalMetrics()) + len(req.GetMetricErrors())
	switch {
	case req.GetScale() == nil:
		return nil, errors.New("request.scale: is required")
	case len(req.GetPods()) > limits.Pods:
		return nil, fmt.Errorf("request.pods: has %d pods, more than the %d that this agent takes", len(req.GetPods()), limits.Pods)
	case samples > limits.Samples:
		return nil, fmt.Errorf("request: has %d samples, more than the %d that this agent takes", samples, limits.Samples)
	}
	return req, nil
}

// observed are the fields that an observation may have.
var observed = []string{"scale", "pods", "podMetrics", "customMetrics", "externalMetrics", "metricErrors", "proposals"}

// maxSampleAge is the age from which a value of a metric is no longer used.
const maxSampleAge = 5 * time.Minute

// untimely says why a value of an instant is no longer used; nil: it is. One that is ahead by more than both clocks may
// differ, as of a clock that shows another zone's time, would not count as old for as long.
func untimely(at *timestamppb.Timestamp, now time.Time) error {
	if at == nil {
		return nil
	}
	switch age := now.Sub(at.AsTime()); {
	case age > maxSampleAge:
		return fmt.Errorf("the value is of %s, more than %s ago", at.AsTime().UTC().Format(time.RFC3339), maxSampleAge)
	case age < -Window:
		return fmt.Errorf("the value is of %s, which is still to come: is the time in UTC, and the clock right?", at.AsTime().UTC().Format(time.RFC3339))
	}
	return nil
}

// withoutUnusable turns values that nothing should be decided by into errors of the spec's metrics that they are of:
// those that would be taken for an overflow, or for less than no usage, and untimely ones. A pod with untimely
// usage has no sample: that of others may be recent.
func withoutUnusable(req *setpointv1.RecommendRequest, now time.Time) {
	metrics := req.GetSpec().GetMetrics()
	wrong := make([]error, len(metrics))
	unusable := func(value string, at *timestamppb.Timestamp, takes func(*setpointv1.MetricSpec) bool) bool {
		err := cmp.Or(samples.CheckValue(value), untimely(at, now))
		for i, m := range metrics {
			if err != nil && takes(m) {
				wrong[i] = err
			}
		}
		return err != nil
	}
	req.ExternalMetrics = slices.DeleteFunc(req.ExternalMetrics, func(v *setpointv1.ExternalMetric) bool {
		return unusable(v.GetValue(), v.Timestamp, func(m *setpointv1.MetricSpec) bool { return samples.Takes(m, v.GetMetric(), nil, v.GetLabels()) })
	})
	req.CustomMetrics = slices.DeleteFunc(req.CustomMetrics, func(v *setpointv1.CustomMetric) bool {
		return unusable(v.GetValue(), v.Timestamp, func(m *setpointv1.MetricSpec) bool {
			return samples.Takes(m, v.GetMetric(), v.GetDescribedObject(), nil)
		})
	})
	req.PodMetrics = slices.DeleteFunc(req.PodMetrics, func(pod *setpointv1.PodMetrics) bool {
		for _, c := range pod.GetContainers() {
			for resource, value := range c.GetUsage() {
				unusable(value, nil, func(m *setpointv1.MetricSpec) bool {
					return m.GetResource().GetName() == resource || m.GetContainerResource().GetName() == resource
				})
			}
		}
		return untimely(pod.Timestamp, now) != nil
	})
	for i, m := range metrics {
		if wrong[i] != nil {
			req.MetricErrors = append(req.MetricErrors, samples.Failed(m, wrong[i]))
		}
	}
}

// shorten returns another's text such that it can stand in a status or a log.
func shorten(text string) string { return strings.TrimSpace(typed.Shorten(text, maxMessage)) }
