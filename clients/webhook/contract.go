package webhook

import (
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
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/samples"
)

// Page is an answer to list.
type Page struct {
	// Targets, each in one page only. What is in one is read by itself, so that a target that
	// can't be read holds no other.
	Targets []json.RawMessage `json:"targets"`
	// NextPageToken asks for the next page. Empty on the last page.
	NextPageToken string `json:"nextPageToken,omitempty"`
}

// Target is a workload that is to be scaled.
type Target struct {
	// Namespace and Name are its name: letters, digits and . _ - each; a name does not end
	// with _shadow. Required.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is another one for a target that is made again under its name. Default: there is
	// one of a name only, ever.
	UID string `json:"uid,omitempty"`
	// Spec is a HorizontalPodAutoscalerSpec. Required.
	Spec json.RawMessage `json:"spec"`
	// Options are RecommendOptions. Default: the server's.
	Options json.RawMessage `json:"options,omitempty"`
	// Period is the time between two evaluations, such as "15s". Default: the agent's.
	Period string `json:"period,omitempty"`
	// Shadow reports whether nothing is to be applied.
	Shadow bool `json:"shadow,omitempty"`
	// Hold is why the target is not to be scaled now. Default: it is.
	Hold *TargetHold `json:"hold,omitempty"`
	// Queries are what the agent asks its metric sources for, by the metric that is answered,
	// such as "External:queue" or "Resource:cpu"; observations then lack it. Keys and values
	// are those of samples.Query. Default: observations have all metrics.
	Queries map[string]map[string]any `json:"queries,omitempty"`
}

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
	// customMetrics, externalMetrics and metricErrors. Required, and its scale too.
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
	// Reason says why, in a few words.
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
	maxNamespace = 253
	maxName      = 240 // and _shadow
	maxUID       = 128
	maxVersion   = 1024
	maxToken     = 1024
	maxMessage   = 1024
	// maxTarget bounds what is kept of a target, bytes: thousands of them are.
	maxTarget = 64 << 10
)

// shadowSuffix ends the names of shadows at the service.
const shadowSuffix = "_shadow"

var (
	segment = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	word    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)
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

// message reads a message of the service's contract.
func message(field string, data []byte, into proto.Message) error {
	if err := protojson.Unmarshal(data, into); err != nil {
		text := strings.ReplaceAll(err.Error(), "\u00a0", " ") // which it puts in at random
		return fmt.Errorf("%s: %s", field, shorten(strings.TrimPrefix(text, "proto: ")))
	}
	return nil
}

// key checks the names of a target, and returns its key.
func (t *Target) key() (agent.Key, error) {
	switch {
	case !segment.MatchString(t.Namespace) || len(t.Namespace) > maxNamespace || dots(t.Namespace):
		return agent.Key{}, fmt.Errorf("namespace: must be 1 to %d letters, digits and . _ -, is %q", maxNamespace, shorten(t.Namespace))
	case !segment.MatchString(t.Name) || len(t.Name) > maxName || dots(t.Name) || strings.HasSuffix(t.Name, shadowSuffix):
		return agent.Key{}, fmt.Errorf("name: must be 1 to %d letters, digits and . _ -, not ending with %s, is %q", maxName, shadowSuffix, shorten(t.Name))
	}
	return agent.Key{Kind: Kind, Namespace: t.Namespace, Name: t.Name}, nil
}

// dots tells names that the service refuses.
func dots(name string) bool { return name == "." || name == ".." || name == "-" }

// wanted is what a target wants, read.
type wanted struct {
	spec *setpointv1.HorizontalPodAutoscalerSpec
	// metrics are those that sources are asked for.
	metrics []samples.Metric
}

// object reads a target whose key is known. What is wrong with it holds it.
func (t *Target) object(key agent.Key, raw []byte, sources Sources) *agent.Object {
	sum := sha256.Sum256(raw)
	o := &agent.Object{Key: key, UID: t.UID, Shadow: t.Shadow, Revision: agent.Version(hex.EncodeToString(sum[:]))}
	var metrics []samples.Metric
	spec, err := t.read(o)
	if err == nil {
		metrics, err = t.metrics(spec, sources)
	}
	switch {
	case err != nil:
		o.Hold = invalid(err)
	case t.Hold != nil:
		o.Hold = &agent.Hold{Outcome: OutcomeHeld, Reason: t.Hold.Reason, Message: "the server holds it: " + shorten(t.Hold.Message)}
	}
	o.Native = &wanted{spec, metrics}
	return o
}

func invalid(err error) *agent.Hold {
	return &agent.Hold{Reason: agent.ReasonInvalidObject, Message: "the server lists it with something wrong: " + err.Error()}
}

// read reads what a target wants.
func (t *Target) read(o *agent.Object) (*setpointv1.HorizontalPodAutoscalerSpec, error) {
	if len(t.UID) > maxUID || strings.ContainsFunc(t.UID, unicode.IsControl) {
		o.UID = ""
		return nil, fmt.Errorf("uid: must have at most %d bytes and no control characters", maxUID)
	}
	if len(t.Spec) == 0 || string(t.Spec) == "null" {
		return nil, errors.New("spec: is required")
	}
	spec := &setpointv1.HorizontalPodAutoscalerSpec{}
	if err := message("spec", t.Spec, spec); err != nil {
		return nil, err
	}
	if len(t.Options) > 0 && string(t.Options) != "null" {
		o.Options = &setpointv1.RecommendOptions{}
		if err := message("options", t.Options, o.Options); err != nil {
			return nil, err
		}
	}
	if t.Period != "" {
		period, err := time.ParseDuration(t.Period)
		if err != nil || period < pace.MinPeriod || period > pace.MaxPeriod {
			return nil, fmt.Errorf("period: must be a duration from %s to %s, such as 15s", pace.MinPeriod, pace.MaxPeriod)
		}
		o.Period = period
	}
	if t.Hold != nil && !word.MatchString(t.Hold.Reason) {
		return nil, errors.New("hold.reason: must be one word such as Deploying")
	}
	return spec, nil
}

// nameOf is a metric as errors of metrics name it.
func nameOf(m *setpointv1.MetricSpec) string {
	name := m.GetType() + ":"
	switch m.GetType() {
	case "Resource":
		name += m.GetResource().GetName()
	case "ContainerResource":
		name += m.GetContainerResource().GetName() + ":" + m.GetContainerResource().GetContainer()
	case "Pods":
		name += m.GetPods().GetMetric().GetName()
	case "Object":
		name += m.GetObject().GetMetric().GetName()
	case "External":
		name += m.GetExternal().GetMetric().GetName()
	}
	return name
}

// metrics returns the metrics of a spec that have queries, in the order of the spec.
func (t *Target) metrics(spec *setpointv1.HorizontalPodAutoscalerSpec, sources Sources) ([]samples.Metric, error) {
	if len(t.Queries) == 0 {
		return nil, nil
	}
	var metrics []samples.Metric
	asked := map[string]bool{}
	for _, m := range spec.GetMetrics() {
		fields, ok := t.Queries[nameOf(m)]
		if !ok {
			continue
		}
		query, err := samples.ParseQuery(fields)
		if err != nil {
			return nil, fmt.Errorf("queries.%s: %w", shorten(nameOf(m)), err)
		}
		metrics, asked[nameOf(m)] = append(metrics, samples.Metric{Spec: m, Query: query}), true
	}
	for name := range t.Queries {
		if !asked[name] {
			return nil, fmt.Errorf("queries.%s: the spec has no such metric; they are named as TYPE:NAME, such as External:queue", shorten(name))
		}
	}
	if err := sources.Check(metrics); err != nil {
		return nil, fmt.Errorf("queries: %w", err)
	}
	return metrics, nil
}

// twiceRead returns the metric that an observation has and a source answers, too: both would be
// summed.
func twiceRead(req *setpointv1.RecommendRequest, metrics []samples.Metric) (name string, twice bool) {
	for _, m := range metrics {
		name := nameOf(m.Spec)
		_, plain, _ := strings.Cut(name, ":")
		switch m.Spec.GetType() {
		case "Resource":
			twice = slices.ContainsFunc(req.GetPodMetrics(), func(v *setpointv1.PodMetrics) bool { return hasUsage(v, plain) })
		case "ContainerResource":
			resource := m.Spec.GetContainerResource().GetName()
			twice = slices.ContainsFunc(req.GetPodMetrics(), func(v *setpointv1.PodMetrics) bool { return hasUsage(v, resource) })
		case "External":
			twice = slices.ContainsFunc(req.GetExternalMetrics(), func(v *setpointv1.ExternalMetric) bool { return v.GetMetric().GetName() == plain })
		default:
			twice = slices.ContainsFunc(req.GetCustomMetrics(), func(v *setpointv1.CustomMetric) bool { return v.GetMetric().GetName() == plain })
		}
		if twice {
			return name, true
		}
	}
	return "", false
}

// hasUsage reports whether there is usage of a resource.
func hasUsage(m *setpointv1.PodMetrics, resource string) bool {
	return slices.ContainsFunc(m.GetContainers(), func(c *setpointv1.ContainerMetrics) bool {
		_, ok := c.GetUsage()[resource]
		return ok
	})
}

// cpu is the resource whose samples' time and window the service looks at.
const cpu = "cpu"

// together returns usage that was observed with that of other resources that sources answered:
// of a pod the service takes one list of containers, and a container without one of the
// resources would count as one without a sample. The error names a pod whose containers differ.
func together(observed, read []*setpointv1.PodMetrics) ([]*setpointv1.PodMetrics, error) {
	if len(observed) == 0 || len(read) == 0 {
		return append(observed, read...), nil
	}
	pods := make(map[string]*setpointv1.PodMetrics, len(observed))
	for _, pod := range observed {
		pods[pod.GetPod()] = pod
	}
	for _, from := range read {
		to := pods[from.GetPod()]
		if to == nil {
			observed = append(observed, from)
			continue
		}
		if !slices.Equal(containersOf(to), containersOf(from)) {
			return nil, fmt.Errorf("podMetrics: pod %q has usage of the containers %q, but the queries return usage of %q: both must name the same containers, or none",
				shorten(to.GetPod()), containersOf(to), containersOf(from))
		}
		usage := make(map[string]map[string]string, len(to.GetContainers()))
		for _, c := range to.GetContainers() {
			if c.Usage == nil {
				c.Usage = map[string]string{}
			}
			usage[c.GetName()] = c.Usage
		}
		for _, c := range from.GetContainers() {
			maps.Copy(usage[c.GetName()], c.GetUsage())
		}
		if hasUsage(from, cpu) {
			to.Timestamp, to.WindowSeconds = from.GetTimestamp(), from.GetWindowSeconds()
		}
	}
	return observed, nil
}

// containersOf returns the names of containers, in order.
func containersOf(m *setpointv1.PodMetrics) []string {
	names := make([]string, len(m.GetContainers()))
	for i, c := range m.GetContainers() {
		names[i] = c.GetName()
	}
	slices.Sort(names)
	return names
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
	withoutUnusable(req, time.Now())
	return req, nil
}

// observed are the fields that an observation may have.
var observed = []string{"scale", "pods", "podMetrics", "customMetrics", "externalMetrics", "metricErrors"}

// maxSampleAge is the age from which a value of a metric is no longer used.
const maxSampleAge = 5 * time.Minute

// withoutUnusable turns values that nothing should be decided by into errors of their metrics:
// those that would be taken for an overflow, and old ones.
func withoutUnusable(req *setpointv1.RecommendRequest, now time.Time) {
	why := func(value string, at *timestamppb.Timestamp) string {
		if err := samples.CheckValue(value); err != nil {
			return err.Error()
		}
		if at != nil && now.Sub(at.AsTime()) > maxSampleAge {
			return fmt.Sprintf("the value is of %s, more than %s ago", at.AsTime().UTC().Format(time.RFC3339), maxSampleAge)
		}
		return ""
	}
	wrong := map[string]string{}
	for _, v := range req.GetExternalMetrics() {
		if text := why(v.GetValue(), v.Timestamp); text != "" {
			wrong["External:"+v.GetMetric().GetName()] = text
		}
	}
	metricOf := func(v *setpointv1.CustomMetric) string {
		if v.GetDescribedObject().GetKind() == "Pod" {
			return "Pods:" + v.GetMetric().GetName()
		}
		return "Object:" + v.GetMetric().GetName()
	}
	for _, v := range req.GetCustomMetrics() {
		if text := why(v.GetValue(), v.Timestamp); text != "" {
			wrong[metricOf(v)] = text
		}
	}
	if len(wrong) == 0 {
		return
	}
	req.ExternalMetrics = slices.DeleteFunc(req.ExternalMetrics, func(v *setpointv1.ExternalMetric) bool {
		return wrong["External:"+v.GetMetric().GetName()] != ""
	})
	req.CustomMetrics = slices.DeleteFunc(req.CustomMetrics, func(v *setpointv1.CustomMetric) bool {
		return wrong[metricOf(v)] != ""
	})
	for _, metric := range slices.Sorted(maps.Keys(wrong)) {
		req.MetricErrors = append(req.MetricErrors, &setpointv1.MetricError{Metric: metric, Message: wrong[metric]})
	}
}

// shorten returns another's text such that it can stand in a status or a log: one line, valid
// UTF-8, of bounded length.
func shorten(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxMessage)], "?"))
	return strings.TrimSpace(text)
}
