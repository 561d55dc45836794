package transcode_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Which variants of each rule are accepted, and that they mean the same on the slow
// path.
func TestTexts(t *testing.T) {
	labels := func(n int, last string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `"k%d":"",`, i)
		}
		return `{"labels":{` + text.String() + last + `}}`
	}
	for _, tt := range []struct {
		rule  string
		of    proto.Message
		text  string
		taken bool
	}{
		{"nothing", &setpointv1.Scale{}, ``, false},
		{"space", &setpointv1.Scale{}, ` `, false},
		{"an empty object", &setpointv1.Scale{}, `{}`, true},
		{"space everywhere", &setpointv1.Scale{}, " \t\r\n{ \"specReplicas\" \n:\t3 , \"selector\" : \"\" } \n", true},
		{"space that is none", &setpointv1.Scale{}, "{\v}", false},
		{"space of Unicode", &setpointv1.Scale{}, "{\u00a0}", false},
		{"a byte order mark", &setpointv1.Scale{}, "\ufeff{}", false},
		{"a list", &setpointv1.Scale{}, `[]`, false},
		{"an object cut off", &setpointv1.Scale{}, `{"specReplicas":3`, false},
		{"a name cut off", &setpointv1.Scale{}, `{"specReplicas`, false},
		{"something behind", &setpointv1.Scale{}, `{} {}`, false},
		{"a bracket behind", &setpointv1.Scale{}, `{}}`, false},
		{"the other bracket", &setpointv1.Scale{}, `{]`, false},
		{"a comma too many", &setpointv1.Scale{}, `{"specReplicas":3,}`, false},
		{"a comma missing", &setpointv1.Scale{}, `{"specReplicas":3 "selector":""}`, false},
		{"a comma alone", &setpointv1.Scale{}, `{,}`, false},
		{"a colon missing", &setpointv1.Scale{}, `{"specReplicas" 3}`, false},
		{"a value missing", &setpointv1.Scale{}, `{"specReplicas":}`, false},
		{"names in another order", &setpointv1.Scale{}, `{"selector":"a","statusReplicas":2,"specReplicas":3}`, true},
		{"a name of the .proto file", &setpointv1.Scale{}, `{"spec_replicas":3}`, false},
		{"a name in the other case", &setpointv1.Scale{}, `{"SpecReplicas":3}`, false},
		{"a name with an escape", &setpointv1.Scale{}, `{"s\u0065lector":""}`, false},
		{"an unknown name", &setpointv1.Scale{}, `{"replicas":3}`, false},
		{"an empty name", &setpointv1.Scale{}, `{"":3}`, false},
		{"the beginning of a name", &setpointv1.Scale{}, `{"spec":3}`, false},
		{"more than a name", &setpointv1.Scale{}, `{"specReplicass":3}`, false},
		{"a name without quotes", &setpointv1.Scale{}, `{selector:""}`, false},
		{"a name twice", &setpointv1.Scale{}, `{"selector":"","selector":""}`, false},
		{"a name in both forms", &setpointv1.Scale{}, `{"specReplicas":1,"spec_replicas":1}`, false},
		{"null", &setpointv1.Scale{}, `{"selector":null}`, false},
		{"null in a list", &setpointv1.SelectorProblem{}, `{"autoscalers":[null]}`, false},
		{"0 that is there", &setpointv1.Scale{}, `{"statusReplicas":0}`, true},
		{"minus 0", &setpointv1.Scale{}, `{"specReplicas":-0}`, true},
		{"minus alone", &setpointv1.Scale{}, `{"specReplicas":-}`, false},
		{"plus", &setpointv1.Scale{}, `{"specReplicas":+1}`, false},
		{"0 before a number", &setpointv1.Scale{}, `{"specReplicas":01}`, false},
		{"a whole number with a fraction", &setpointv1.Scale{}, `{"specReplicas":1.0}`, false},
		{"a whole number with an exponent", &setpointv1.Scale{}, `{"specReplicas":1e1}`, false},
		{"a number in quotes", &setpointv1.Scale{}, `{"specReplicas":"-12"}`, true},
		{"a number in quotes with space", &setpointv1.Scale{}, `{"specReplicas":"12 "}`, false},
		{"a number in one quote", &setpointv1.Scale{}, `{"specReplicas":"12}`, false},
		{"no number in quotes", &setpointv1.Scale{}, `{"specReplicas":""}`, false},
		{"the largest number", &setpointv1.Scale{}, `{"specReplicas":2147483647}`, true},
		{"a larger one", &setpointv1.Scale{}, `{"specReplicas":2147483648}`, false},
		{"the least number", &setpointv1.Scale{}, `{"specReplicas":-2147483648}`, true},
		{"a lower one", &setpointv1.Scale{}, `{"specReplicas":-2147483649}`, false},
		{"more than 64 bits", &setpointv1.Scale{}, `{"specReplicas":18446744073709551617}`, false},
		{"a large number of 64 bits", &setpointv1.HorizontalPodAutoscalerStatus{}, `{"observedGeneration":9223372036854775799}`, true},
		{"the largest of 64 bits", &setpointv1.HorizontalPodAutoscalerStatus{}, `{"observedGeneration":"9223372036854775807"}`, false},
		{"more than that", &setpointv1.HorizontalPodAutoscalerStatus{}, `{"observedGeneration":9223372036854775808}`, false},
		{"a text for a boolean", &setpointv1.Pod{}, `{"deleting":"true"}`, false},
		{"a word that goes on", &setpointv1.Pod{}, `{"deleting":truee}`, false},
		{"a word cut off", &setpointv1.Pod{}, `{"deleting":tru`, false},
		{"true", &setpointv1.InitContainer{}, `{"restartable":true}`, true},
		{"false", &setpointv1.InitContainer{}, `{"restartable":false}`, true},
		{"false that is there", &setpointv1.RecommendOptions{}, `{"scaleToZero":false}`, true},
		{"a text of several scripts", &setpointv1.Scale{}, `{"selector":"naïve 日本語 😀 \ufffd ` + "\u2028\x7f" + `"}`, true},
		{"every escape", &setpointv1.Scale{}, `{"selector":"\"\\\/\b\f\n\r\t\u0041\u00e9\u65E5\u0000"}`, true},
		{"an escape that is none", &setpointv1.Scale{}, `{"selector":"\x41"}`, false},
		{"an escape cut off", &setpointv1.Scale{}, `{"selector":"\u00`, false},
		{"an escape without digits", &setpointv1.Scale{}, `{"selector":"\u00g0"}`, false},
		{"a backslash at the end", &setpointv1.Scale{}, `{"selector":"\`, false},
		{"a pair of surrogates", &setpointv1.Scale{}, `{"selector":"\ud83d\ude00"}`, false},
		{"half a pair", &setpointv1.Scale{}, `{"selector":"\ud83d"}`, false},
		{"a line end in a text", &setpointv1.Scale{}, "{\"selector\":\"a\nb\"}", false},
		{"a zero byte", &setpointv1.Scale{}, "{\"selector\":\"a\x00b\"}", false},
		{"no UTF-8", &setpointv1.Scale{}, "{\"selector\":\"12345678\xff\"}", false},
		{"UTF-8 cut off", &setpointv1.Scale{}, "{\"selector\":\"\xe6\x97\"}", false},
		{"a surrogate in UTF-8", &setpointv1.Scale{}, "{\"selector\":\"\xed\xa0\x80\"}", false},
		{"a number for a text", &setpointv1.Scale{}, `{"selector":1}`, false},
		{"a number for a quantity", &setpointv1.CustomMetric{}, `{"value":-1.50E+3}`, true},
		{"numbers for quantities in a map", &setpointv1.ResourceRequirements{}, `{"requests":{"cpu":0.5,"memory":64}}`, true},
		{"no number for a quantity", &setpointv1.CustomMetric{}, `{"value":1e}`, false},
		{"a word for a quantity", &setpointv1.CustomMetric{}, `{"value":true}`, false},
		{"a number for a label", &setpointv1.ExternalMetric{}, `{"labels":{"shard":1}}`, false},
		{"doubles", &setpointv1.LoadPoint{}, `{"value":-12.50e-3}`, true},
		{"minus 0, a double", &setpointv1.LoadPoint{}, `{"value":-0.0}`, true},
		{"no digits before the point", &setpointv1.LoadPoint{}, `{"value":.5}`, false},
		{"no digits behind the point", &setpointv1.LoadPoint{}, `{"value":5.}`, false},
		{"no digits of an exponent", &setpointv1.LoadPoint{}, `{"value":5e+}`, false},
		{"a double with 0 before", &setpointv1.LoadPoint{}, `{"value":00.5}`, false},
		{"too large a double", &setpointv1.LoadPoint{}, `{"value":1e309}`, false},
		{"too small a double", &setpointv1.LoadPoint{}, `{"value":1e-400}`, true},
		{"no number", &setpointv1.LoadPoint{}, `{"value":"NaN"}`, true},
		{"infinity", &setpointv1.LoadPoint{}, `{"value":"-Infinity"}`, true},
		{"another word for it", &setpointv1.LoadPoint{}, `{"value":"Inf"}`, false},
		{"words without quotes", &setpointv1.LoadPoint{}, `{"value":NaN}`, false},
		{"lists", &setpointv1.SelectorProblem{}, `{"autoscalers":["a","","b"]}`, true},
		{"an empty list", &setpointv1.SelectorProblem{}, `{"autoscalers":[ ]}`, true},
		{"a list with a comma too many", &setpointv1.SelectorProblem{}, `{"autoscalers":["a",]}`, false},
		{"a list that is none", &setpointv1.SelectorProblem{}, `{"autoscalers":"a"}`, false},
		{"no policies", &setpointv1.HPAScalingRules{}, `{"policies": [ ]}`, false},
		{"a policy", &setpointv1.HPAScalingRules{}, `{"policies": [{}]}`, true},
		{"maps", &setpointv1.ExternalMetric{}, `{"labels":{"b":"1","":"","\"a":"\n"}}`, true},
		{"a key twice", &setpointv1.ExternalMetric{}, `{"labels":{"b":"1","a":"","b":"1"}}`, false},
		{"a key twice, with an escape", &setpointv1.ExternalMetric{}, `{"labels":{"b":"1","\u0062":"1"}}`, false},
		{"a key that begins like another", &setpointv1.ExternalMetric{}, `{"labels":{"bc":"1","b":"1","bcd":"1"}}`, true},
		{"long keys and values", &setpointv1.ExternalMetric{}, `{"labels":{"` + strings.Repeat("k", 200) + `":"` + strings.Repeat("v", 200) + `","k":""}}`, true},
		{"a long key twice", &setpointv1.ExternalMetric{}, `{"labels":{"` + strings.Repeat("k", 200) + `":"","` + strings.Repeat("k", 200) + `":""}}`, false},
		{"many entries", &setpointv1.ExternalMetric{}, labels(63, `"k":""`), true},
		{"too many entries", &setpointv1.ExternalMetric{}, labels(64, `"k":""`), false},
		{"null in a map", &setpointv1.ExternalMetric{}, `{"labels":{"b":null}}`, false},
		{"a map that is a list", &setpointv1.ExternalMetric{}, `{"labels":[]}`, false},
		{"the second of two that exclude each other", &setpointv1.BatchRecommendResult{}, `{"response":{},"error":{}}`, false},
		{"the second alone", &setpointv1.BatchRecommendResult{}, `{"error":{"code":3,"message":"no","details":[]}}`, true},
		{"a kind that is not taken", &setpointv1.BatchRecommendResult{}, `{"error":{"details":[{}]}}`, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if taken := subjectOf(tt.of).toWire(t, []byte(tt.text)); taken != tt.taken {
				t.Errorf("taken: %t, want %t", taken, tt.taken)
			}
		})
	}
}
