package generate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// metricSelector is the selector of a metric, with labels of series inside and
// outside of it.
type metricSelector struct {
	// spellings all have the same meaning.
	spellings []*metav1.LabelSelector
	inside    map[string]string
	// outside is nil if nothing is outside.
	outside map[string]string
}

func (s *metricSelector) spec() *metav1.LabelSelector { return s.spellings[0].DeepCopy() }

func matchLabels(labels ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		s.MatchLabels[labels[i]] = labels[i+1]
	}
	return s
}

func matchExpression(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

var (
	allSeries   = &metricSelector{[]*metav1.LabelSelector{nil, {}}, map[string]string{"shard": "a"}, nil}
	emptySeries = &metricSelector{[]*metav1.LabelSelector{{}, nil}, nil, nil}
)

// metricSelectors are the selectors of metrics. Absent and empty ones mean the same and
// print differently.
var metricSelectors = []weighted[*metricSelector]{
	{8, allSeries},
	{1.5, emptySeries},
	{2, &metricSelector{
		[]*metav1.LabelSelector{matchLabels("shard", "a"), matchExpression("shard", metav1.LabelSelectorOpIn, "a")},
		map[string]string{"shard": "a", "zone": "z1"}, map[string]string{"shard": "b"},
	}},
	{1, &metricSelector{
		[]*metav1.LabelSelector{matchLabels("shard", "a", "zone", "z1"), {
			MatchLabels: map[string]string{"zone": "z1"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "shard", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}},
			},
		}},
		map[string]string{"shard": "a", "zone": "z1"}, map[string]string{"shard": "a", "zone": "z2"},
	}},
	{1, &metricSelector{
		[]*metav1.LabelSelector{
			matchExpression("shard", metav1.LabelSelectorOpIn, "a", "b"), matchExpression("shard", metav1.LabelSelectorOpIn, "b", "a"),
		},
		map[string]string{"shard": "b"}, map[string]string{"shard": "c"},
	}},
	{0.7, &metricSelector{
		[]*metav1.LabelSelector{matchExpression("shard", metav1.LabelSelectorOpNotIn, "c")},
		map[string]string{"zone": "z1"}, map[string]string{"shard": "c"},
	}},
	{0.7, &metricSelector{
		[]*metav1.LabelSelector{matchExpression("zone", metav1.LabelSelectorOpExists)},
		map[string]string{"zone": ""}, map[string]string{"shard": "c"},
	}},
	{0.7, &metricSelector{
		[]*metav1.LabelSelector{{
			MatchLabels: map[string]string{"shard": "a"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "zone", Operator: metav1.LabelSelectorOpDoesNotExist},
				{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x", "y"}},
			},
		}},
		map[string]string{"shard": "a"}, map[string]string{"shard": "a", "zone": "z1"},
	}},
	// The API server accepts invalid selectors; the controller reports them.
	{0.1, &metricSelector{[]*metav1.LabelSelector{matchExpression("shard", metav1.LabelSelectorOpIn)}, nil, nil}},
	{0.1, &metricSelector{[]*metav1.LabelSelector{matchLabels("shard", "not a value!")}, nil, nil}},
	{0.1, &metricSelector{[]*metav1.LabelSelector{matchLabels("100%", "100%d")}, nil, nil}},
	{0.1, &metricSelector{[]*metav1.LabelSelector{matchExpression("shard", "Near", "a", "%s")}, nil, nil}},
	{0.1, &metricSelector{[]*metav1.LabelSelector{matchExpression("shard", metav1.LabelSelectorOpExists, "a")}, nil, nil}},
	{0.5, &metricSelector{
		[]*metav1.LabelSelector{matchExpression("shard", metav1.LabelSelectorOpIn, "b", "a", "a"), matchExpression("shard", metav1.LabelSelectorOpIn, "a", "b")},
		map[string]string{"shard": "a"}, map[string]string{"shard": "c"},
	}},
	{0.5, &metricSelector{
		[]*metav1.LabelSelector{matchLabels("shard", ""), matchExpression("shard", metav1.LabelSelectorOpIn, "")},
		map[string]string{"shard": ""}, map[string]string{"zone": "z1"},
	}},
	{0.5, &metricSelector{
		[]*metav1.LabelSelector{{MatchLabels: map[string]string{"shard": "a"}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "shard", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}, {Key: "shard", Operator: metav1.LabelSelectorOpExists},
		}}},
		map[string]string{"shard": "a"}, map[string]string{"shard": "b"},
	}},
}

func (g *generator) metricSelector() *metricSelector { return pick(g.random, metricSelectors) }

// selectorOf returns the entry of a spec's selector.
func selectorOf(s *metav1.LabelSelector) *metricSelector {
	printed := metav1.FormatLabelSelector(s)
	for _, w := range metricSelectors {
		if spec := w.value.spellings[0]; (spec == nil) == (s == nil) && metav1.FormatLabelSelector(spec) == printed {
			return w.value
		}
	}
	return allSeries
}

// spelling returns the selector of a value queried with that of the spec: an adapter
// may spell it differently.
func (g *generator) spelling(s *metav1.LabelSelector) *metav1.LabelSelector {
	if g.chance(0.8) {
		return s.DeepCopy()
	}
	return oneOf(g.random, selectorOf(s).spellings...).DeepCopy()
}

// podSelector is a selector of a scale, and labels of pods inside and outside.
type podSelector struct {
	text            string
	inside, outside map[string]string
}

var podSelectors = []weighted[podSelector]{
	{8, podSelector{"app=web", map[string]string{"app": "web"}, map[string]string{"app": "db"}}},
	{1, podSelector{"app=web,tier=front", map[string]string{"app": "web", "tier": "front"}, map[string]string{"app": "web"}}},
	{1, podSelector{"app in (api,web),!legacy", map[string]string{"app": "web"}, map[string]string{"app": "web", "legacy": ""}}},
	{1, podSelector{"app,tier notin (back)", map[string]string{"app": "web"}, map[string]string{"tier": "front"}}},
	{0.3, podSelector{" app == web , tier ", map[string]string{"app": "web", "tier": ""}, map[string]string{"app": "web"}}},
	{0.3, podSelector{"app=web,build>3,build<10", map[string]string{"app": "web", "build": "5"}, map[string]string{"app": "web", "build": "10"}}},
	{0.2, podSelector{"app in (,web)", map[string]string{"app": ""}, map[string]string{"app": "db"}}},
	{0.5, podSelector{"app!=db", map[string]string{"app": "web"}, map[string]string{"app": "db"}}},
}

// canary is an additional label of some pods.
const canary = "canary"

// otherHPAs returns other autoscalers: some that share pods with it always, sometimes
// and never.
func (g *generator) otherHPAs() []recording.OtherHPA {
	if !g.chance(0.15) {
		return nil
	}
	own := g.scenario.HPA
	choices := []weighted[recording.OtherHPA]{
		{1, recording.OtherHPA{Name: "rival", Selector: g.cluster.selector.text}},
		{3, recording.OtherHPA{Name: "canaries", Selector: canary + "=true"}},
		{2, recording.OtherHPA{Name: "db", Selector: "app=db"}},
		{2, recording.OtherHPA{Name: own.Name, Namespace: "elsewhere", Selector: g.cluster.selector.text}},
		{2, recording.OtherHPA{Name: "unseen"}},
		{2, recording.OtherHPA{Name: "broken", Selector: "app in (web"}},
		{1, recording.OtherHPA{Name: "same-namespace", Namespace: own.Namespace, Selector: canary}},
	}
	var out []recording.OtherHPA
	known := map[string]bool{}
	for range g.between(1, 3) {
		other := pick(g.random, choices)
		if !known[other.Name] {
			out = append(out, other)
		}
		known[other.Name] = true
	}
	return out
}
