package stored

import (
	"crypto/sha256"
	"encoding/binary"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
	"github.com/setpoint-dev/setpoint/recommender"
)

// namer identifies metrics: those with the same meaning have the same identity. It parses
// each selector once. The zero value is ready for use; it is not safe for concurrent use.
type namer struct {
	selectors map[string]string
	key       []byte
}

// identityBytes is the length of an identity, long enough that two metrics of one target do
// not share one by chance.
const identityBytes = 16

// digest computes an identity.
func digest(parts ...string) string {
	h := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return string(h.Sum(nil)[:identityBytes])
}

// customOf returns the stored values by their identities.
func (n *namer) customOf(o *storedv1.Observation) map[string]*storedv1.CustomMetricValues {
	all := make(map[string]*storedv1.CustomMetricValues, len(o.GetCustomMetrics()))
	for _, m := range o.GetCustomMetrics() {
		if len(m.GetIdentity()) == 0 && len(m.GetValues()) > 0 {
			m.Identity = []byte(n.custom(m.GetValues()[0]))
		}
		all[string(m.GetIdentity())] = m
	}
	return all
}

// externalOf returns the stored series by their identities.
func (n *namer) externalOf(o *storedv1.Observation) map[string]*storedv1.ExternalMetricSeries {
	all := make(map[string]*storedv1.ExternalMetricSeries, len(o.GetExternalMetrics()))
	for _, m := range o.GetExternalMetrics() {
		if len(m.GetIdentity()) == 0 && len(m.GetSeries()) > 0 {
			m.Identity = []byte(n.series(m.GetSeries()[0].GetMetric()))
		}
		all[string(m.GetIdentity())] = m
	}
	return all
}

// custom is the identity of a value's metric: values of pods all belong to one, those of
// objects to one per object.
func (n *namer) custom(v *setpointv1.CustomMetric) string {
	if isPod(v.GetDescribedObject()) {
		return n.pods(v.GetMetric())
	}
	return n.object(v.GetDescribedObject(), v.GetMetric())
}

// pods is the identity of a metric of all pods.
func (n *namer) pods(m *setpointv1.MetricIdentifier) string {
	return digest("pods", m.GetName(), n.selector(m.GetSelector()))
}

// object is the identity of a metric of an object. Kubernetes looks up a namespace's metric
// by the target's own namespace, whatever name the spec has.
func (n *namer) object(of *setpointv1.CrossVersionObjectReference, m *setpointv1.MetricIdentifier) string {
	group, name := recommender.APIGroup(of.GetApiVersion()), of.GetName()
	if of.GetKind() == "Namespace" && group == "" {
		name = ""
	}
	return digest("object", of.GetKind(), group, name, m.GetName(), n.selector(m.GetSelector()))
}

// series is the identity of a series' query. A series without a selector belongs to any
// metric of that name whose selector matches its labels.
func (n *namer) series(m *setpointv1.MetricIdentifier) string {
	if m.GetSelector() == nil {
		return digest("series", m.GetName())
	}
	return n.external(m)
}

// external is the identity of an External metric of a spec.
func (n *namer) external(m *setpointv1.MetricIdentifier) string {
	return digest("series", m.GetName(), n.selector(m.GetSelector()))
}

// selector is the identity of a selector. An invalid one is its own identity.
func (n *namer) selector(s *setpointv1.LabelSelector) string {
	if len(s.GetMatchLabels())+len(s.GetMatchExpressions()) == 0 {
		return ""
	}
	n.key, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(n.key[:0], s)
	if known, ok := n.selectors[string(n.key)]; ok {
		return known
	}
	identity := "\x00" + string(n.key)
	if parsed, err := parse(s); err == nil {
		identity = labelselector.Identity(parsed)
	}
	if n.selectors == nil {
		n.selectors = make(map[string]string)
	}
	n.selectors[string(n.key)] = identity
	return identity
}

// parse converts a selector; none and an empty one select all.
func parse(s *setpointv1.LabelSelector) (labels.Selector, error) {
	if len(s.GetMatchLabels())+len(s.GetMatchExpressions()) == 0 {
		return labels.Everything(), nil
	}
	expressions := make([]labelselector.Expression, len(s.GetMatchExpressions()))
	for i, e := range s.GetMatchExpressions() {
		expressions[i] = labelselector.Expression{Key: e.GetKey(), Operator: e.GetOperator(), Values: e.GetValues()}
	}
	return labelselector.New(s.GetMatchLabels(), expressions)
}

// terms counts the requirements and values of a selector.
func terms(s *setpointv1.LabelSelector) int {
	n := len(s.GetMatchLabels())
	for _, e := range s.GetMatchExpressions() {
		n += 1 + len(e.GetValues())
	}
	return n
}

// isPod reports whether an object is a pod, of Kubernetes' own kind.
func isPod(of *setpointv1.CrossVersionObjectReference) bool {
	return of.GetKind() == "Pod" && recommender.APIGroup(of.GetApiVersion()) == ""
}
