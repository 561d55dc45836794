package restjson

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/reflect/protoregistry"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestPoliciesFieldExists(t *testing.T) {
	if _, err := protoregistry.GlobalFiles.FindDescriptorByName(policiesField); err != nil {
		t.Error(err)
	}
}

func TestEmptyPolicies(t *testing.T) {
	const refused = "spec.behavior.scaleUp.policies: " + noPolicies
	tests := []struct {
		name string
		text string
		want string // of the one violation; empty: accepted
	}{
		{"a policy", `{"spec": {"behavior": {"scaleUp": {"policies": [{}]}}}}`, ""},
		{"null stands for absent", `{"spec": {"behavior": {"scaleUp": {"policies": null}}}}`, ""},
		{"an empty list", `{"spec": {"behavior": {"scaleUp": {"policies": []}}}}`, refused},
		{"white space within", "{\"spec\": {\"behavior\": {\"scaleUp\": {\"policies\"\t:\r\n[ \n]}}}}", refused},
		{"a name spelt with escapes", `{"spec": {"behavior": {"scaleUp": {"polic\u0069es": []}}}}`, refused},
		{"another empty list", `{"spec": {"metrics": [], "behavior": {"scaleUp": {}}}}`, ""},
		{"escapes elsewhere", `{"requestId": "\u0061\u006a\u003c"}`, ""},
		{"the same text within a string", `{"requestId": "\"policies\": []"}`, ""},
		{"a number that only protojson reads", `{"spec": {"maxReplicas": 1e, "behavior": {"scaleUp": {"policies": []}}}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Unmarshal([]byte(tt.text), &setpointv1.RecommendRequest{})
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want it accepted", err)
				}
				return
			}
			invalid, ok := err.(*Error)
			if !ok || len(invalid.Violations) != 1 || invalid.Violations[0].String() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// An answer may have an empty list of policies where a request may not.
func TestEmptyPoliciesOfAnExplanation(t *testing.T) {
	text := `{"explanation": {"rateLimit": {"policies": []}}}`
	if err := Unmarshal([]byte(text), &setpointv1.RecommendResponse{}); err != nil {
		t.Error(err)
	}
}

func TestEmptyPoliciesInABatch(t *testing.T) {
	text := `{"requests": [{}, {"spec": {"behavior": {"scaleDown": {"policies": []}}}}]}`
	err := Unmarshal([]byte(text), &setpointv1.BatchRecommendRequest{})
	want := "invalid request: requests[1].spec.behavior.scaleDown.policies: " + noPolicies
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What an answer says of a spec can be sent again: rules without policies have no list of them.
func TestRulesWithoutPoliciesAreWrittenWithout(t *testing.T) {
	for _, rules := range []string{
		`{}`, `{"stabilizationWindowSeconds":20}`, `{"selectPolicy":"Disabled"}`, `{"selectPolicy":"a\"{,}"}`, `{"tolerance":"0.1"}`,
		`{"stabilizationWindowSeconds":0,"selectPolicy":"Min","tolerance":"0.1"}`,
		`{"policies":[{"type":"Pods","value":1,"periodSeconds":60}]}`,
	} {
		for _, direction := range []string{"scaleUp", "scaleDown"} {
			want := `{"maxReplicas":3,"metrics":[],"behavior":{"` + direction + `":` + rules + `}}`
			var spec setpointv1.HorizontalPodAutoscalerSpec
			fatal.If(t, Unmarshal([]byte(want), &spec))
			got, err := new(Marshaler).Marshal(&spec)
			if err != nil || string(got) != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		}
	}
	text := "\"scaleUp\":{\"policies\":[]}"
	got, err := new(Marshaler).Marshal(&setpointv1.RecommendResponse{Error: text, Explanation: &setpointv1.Explanation{RateLimit: &setpointv1.RateLimitExplanation{}}})
	var back setpointv1.RecommendResponse
	if err != nil || Unmarshal(got, &back) != nil || back.GetError() != text || !bytes.Contains(got, []byte(`"policies":[]`)) {
		t.Errorf("got %s, %v", got, err)
	}
}
