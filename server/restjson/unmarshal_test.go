package restjson_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

func TestUnmarshalAccepts(t *testing.T) {
	tests := []struct {
		name string
		text string
		want string // the same for protojson; empty: text itself
	}{
		{name: "an object without fields", text: `{}`},
		{name: "a whole request", text: string(request(3, `"500m"`))},
		{name: "the names of the .proto files", text: `{"request_id": "a", "spec": {"max_replicas": 3}}`},
		{name: "null for an absent field", text: `{"spec": null, "pods": null, "requestId": null, "evaluationTime": null}`},
		{name: "whole numbers however spelt", text: `{"spec": {"maxReplicas": 1e1, "minReplicas": 2.0}, "scale": {"specReplicas": "3"}}`},
		{name: "white space anywhere", text: " \r\n\t{ \"dryRun\" :\ttrue } \n"},
		{
			name: "a number for a quantity, its digits as they are",
			text: `{"options": {"tolerance": 0.10}}`,
			want: `{"options": {"tolerance": "0.10"}}`,
		},
		{
			name: "numbers for quantities in fields, maps and nested messages",
			text: `{"spec": {"metrics": [{"pods": {"target": {"averageValue": 10, "value": -1.5e3}}}]},
				"pods": [{"overhead": {"cpu": 0.5}, "containers": [{"requests": {"cpu": 1, "memory": "1Gi"}}]}],
				"customMetrics": [{"value": 120}]}`,
			want: `{"spec": {"metrics": [{"pods": {"target": {"averageValue": "10", "value": "-1.5e3"}}}]},
				"pods": [{"overhead": {"cpu": "0.5"}, "containers": [{"requests": {"cpu": "1", "memory": "1Gi"}}]}],
				"customMetrics": [{"value": "120"}]}`,
		},
		{
			name: "a number for a quantity beside a whole number however spelt",
			text: `{"options": {"tolerance": 0}, "spec": {"maxReplicas": "1e1"}}`,
			want: `{"options": {"tolerance": "0"}, "spec": {"maxReplicas": "1e1"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want = cmp.Or(tt.want, tt.text)
			got := recommendRequest()
			fatal.If(t, restjson.Unmarshal([]byte(tt.text), got))
			if want := decoded(t, tt.want, recommendRequest()); !proto.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestUnmarshalAcceptsNumbersInListsOfQuantities(t *testing.T) {
	got := &setpointv1.SimulateRequest{}
	err := restjson.Unmarshal([]byte(`{"workload": {"usagePerLoad": [1, "2m"], "idleUsage": [0.25]}}`), got)
	fatal.If(t, err)
	if w := got.GetWorkload(); !slices.Equal(w.GetUsagePerLoad(), []string{"1", "2m"}) || !slices.Equal(w.GetIdleUsage(), []string{"0.25"}) {
		t.Errorf("got %v", w)
	}
}

func TestUnmarshalReplacesTheMessage(t *testing.T) {
	got := &setpointv1.RecommendRequest{RequestId: "before", DryRun: true}
	fatal.If(t, restjson.Unmarshal([]byte(`{"explain": true}`), got))
	if want := (&setpointv1.RecommendRequest{Explain: true}); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUnmarshalViolations(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string
	}{
		{
			"an unknown field, with the name that was meant",
			`{"spec": {"metrics": [{"resource": {"traget": {"type": "Value"}}}]}}`,
			[]string{`spec.metrics[0].resource.traget: unknown field, did you mean "target"?`},
		},
		{
			"an unknown field that is like none",
			`{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}`,
			[]string{`apiVersion: unknown field`, `kind: unknown field`},
		},
		{
			"a field of a message within",
			`{"minReplicas": 1, "resource": {}}`,
			[]string{`minReplicas: unknown field, did you mean "spec.minReplicas"?`, `resource: unknown field`},
		},
		{
			"a message where what it has is wanted",
			`{"spec": {"hpa": {"maxReplicas": 3}, "none": {}, "other": {"kind": 1}, "list": [{"maxReplicas": 3}]}}`,
			[]string{`spec.hpa: unknown field; send what it holds in its place`, `spec.none: unknown field`, `spec.other: unknown field`, `spec.list: unknown field`},
		},
		{
			"an unknown field whose name would be unclear in a path",
			`{"": 1, "spec": {"a.b c": 2, "` + strings.Repeat("x", 50) + `": 3}}`,
			[]string{`"": unknown field`, `spec."a.b c": unknown field`, `spec.` + strings.Repeat("x", 40) + `…: unknown field`},
		},
		{
			"another JSON type than the field's",
			`{"spec": {"maxReplicas": "ten", "minReplicas": true}, "requestId": 5, "dryRun": "yes", "explain": 1,
			  "pods": {}, "podMetrics": [[]], "options": "none", "scale": {"selector": {}}}`,
			[]string{
				`spec.maxReplicas: must be a number, is a string ("ten")`,
				`spec.minReplicas: must be a number, is a boolean (true)`,
				`requestId: must be a string, is a number (5)`,
				`dryRun: must be true or false, is "yes"`,
				`explain: must be true or false, is a number (1)`,
				`pods: must be a list, is an object`,
				`podMetrics[0]: must be an object, is a list`,
				`options: must be an object, is a string ("none")`,
				`scale.selector: must be a string, is an object`,
			},
		},
		{
			"a number beyond the field's range, or not whole",
			`{"spec": {"maxReplicas": 3000000000, "minReplicas": 2.5, "behavior": {"scaleUp": {"stabilizationWindowSeconds": "1e10"}}},
			  "podMetrics": [{"windowSeconds": 1e999}], "previousStatus": {"observedGeneration": 9223372036854775808}}`,
			[]string{
				`spec.maxReplicas: must be a whole number from -2147483648 to 2147483647, is 3000000000`,
				`spec.minReplicas: must be a whole number from -2147483648 to 2147483647, is 2.5`,
				`spec.behavior.scaleUp.stabilizationWindowSeconds: must be a whole number from -2147483648 to 2147483647, is 1e10`,
				`podMetrics[0].windowSeconds: must be a number from -1.79e308 to 1.79e308, is 1e999`,
				`previousStatus.observedGeneration: must be a whole number from -9223372036854775808 to 9223372036854775807, is 9223372036854775808`,
			},
		},
		{
			"a field that is there twice, under either name",
			`{"requestId": "a", "request_id": "b", "spec": {}, "spec": {"unseen": 1}, "explain": null, "explain": true}`,
			[]string{`requestId: duplicate field`, `spec: duplicate field`, `explain: duplicate field`},
		},
		{
			"a map key that is there twice",
			`{"pods": [{"overhead": {"cpu": "1", "nvidia.com/gpu": "1", "cpu": 2, "nvidia.com/gpu": "2"}}]}`,
			[]string{`pods[0].overhead["cpu"]: duplicate key`, `pods[0].overhead["nvidia.com/gpu"]: duplicate key`},
		},
		{
			"a time in another form",
			`{"evaluationTime": "yesterday", "pods": [{"startTime": 1767225600}], "podMetrics": [{"timestamp": "2026-01-31 12:00:00"}]}`,
			[]string{
				`evaluationTime: must be an RFC 3339 timestamp such as "2026-01-31T12:00:00Z", is "yesterday"`,
				`pods[0].startTime: must be an RFC 3339 timestamp such as "2026-01-31T12:00:00Z", is a number (1767225600)`,
				`podMetrics[0].timestamp: must be an RFC 3339 timestamp such as "2026-01-31T12:00:00Z", is "2026-01-31 12:00:00"`,
			},
		},
		{
			"a duration in another form",
			`{"options": {"downscaleStabilization": "5m", "cpuInitializationPeriod": 300, "initialReadinessDelay": {}}}`,
			[]string{
				`options.downscaleStabilization: must be a duration in seconds such as "300s" or "0.5s", is "5m": write "300s"`,
				`options.cpuInitializationPeriod: must be a duration in seconds such as "300s" or "0.5s", is a number (300): write "300s"`,
				`options.initialReadinessDelay: must be a duration in seconds such as "300s" or "0.5s", is an object`,
			},
		},
		{
			"null in a list or a map",
			`{"pods": [null, {"overhead": {"cpu": null}}], "spec": {"metrics": [{}, null]}}`,
			[]string{`pods[0]: must not be null`, `pods[1].overhead["cpu"]: must not be null`, `spec.metrics[1]: must not be null`},
		},
		{
			"a quantity that is neither string nor number",
			`{"options": {"tolerance": true}, "pods": [{"overhead": {"cpu": {}}}], "customMetrics": [{"value": ["1"]}]}`,
			[]string{
				`options.tolerance: must be a quantity such as "500m", is a boolean (true)`,
				`pods[0].overhead["cpu"]: must be a quantity such as "500m", is an object`,
				`customMetrics[0].value: must be a quantity such as "500m", is a list`,
			},
		},
		{
			"a number for a string that is no quantity",
			`{"customMetrics": [{"value": 1, "metric": {"name": 2, "selector": {"matchLabels": {"shard": 3}}}}]}`,
			[]string{
				`customMetrics[0].metric.name: must be a string, is a number (2)`,
				`customMetrics[0].metric.selector.matchLabels["shard"]: must be a string, is a number (3)`,
			},
		},
		{
			"half a character",
			`{"requestId": "a\ud800b"}`,
			[]string{`requestId: must be a string without unpaired surrogates, is "a` + "\ufffd" + `b"`},
		},
		{
			"half a character in a map key, in protojson's words",
			`{"pods": [{"overhead": {"\ud800": "1"}}]}`,
			[]string{`syntax error (line 1:25): invalid escape code "\": \"1\"" in string`},
		},
		{
			"no policies, in Kubernetes' words",
			`{"spec": {"behavior": {"scaleUp": {"policies": []}, "scaleDown": {"policies" : [ ]}}}}`,
			[]string{
				`spec.behavior.scaleUp.policies: Required value: must specify at least one Policy`,
				`spec.behavior.scaleDown.policies: Required value: must specify at least one Policy`,
			},
		},
		{
			"no policies, beside other problems",
			`{"spec": {"behavior": {"scaleUp": {"policies": [], "selectPolicy": 1}}}, "dryrun": true}`,
			[]string{
				`spec.behavior.scaleUp.policies: Required value: must specify at least one Policy`,
				`spec.behavior.scaleUp.selectPolicy: must be a string, is a number (1)`,
				`dryrun: unknown field, did you mean "dryRun"?`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := violations(t, tt.text, recommendRequest()); !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
}

func TestUnmarshalRefusesTexts(t *testing.T) {
	tests := []struct {
		name string
		text string
		want string
	}{
		{"nothing", "", `the body is empty; send a JSON object such as {"target": …, "spec": …, "scale": …}`},
		{"only white space", " \n", `the body is empty; send a JSON object such as {"target": …, "spec": …, "scale": …}`},
		{"a list", `[]`, `must be an object, is a list`},
		{"a string", `"a"`, `must be an object, is a string ("a")`},
		{"null", `null`, `must be an object, is null`},
		{"a text that stops in a name", "{\"spec\":\n {\"maxRepl", "the body is cut off: the JSON value is not complete at line 2, column 11, after `{\"spec\": {\"maxRepl`"},
		{"a text that stops before the last bracket", `{"spec": {"maxReplicas": 3}`, "the body is cut off: the JSON value is not complete at line 1, column 28, after `pec\": {\"maxReplicas\": 3}`"},
		{"a comma missing", "{\n  \"dryRun\": true\n  \"explain\": true\n}", "syntax error at line 3, column 3: invalid character '\"' after object key:value pair, near `{ \"dryRun\": true \"explain\": true }`"},
		{"a comma too many", `{"é": 1,}`, "syntax error at line 1, column 9: invalid character '}' looking for beginning of object key string, near `{\"é\": 1,}`"},
		{"a control character", "{\"requestId\": \"a\x01b\"}", "syntax error at line 1, column 17: invalid character '\\x01' in string literal, near `{\"requestId\": \"a b\"}`"},
		{"something after the object", `{"dryRun": true} {}`, "unexpected data after the JSON value at line 1, column 18: `{}`"},
		{"a bracket too many", `{"dryRun": true}}`, "unexpected data after the JSON value at line 1, column 17: `}`"},
		{"a mark before the text, as some editors write it", "\ufeff{}", "the body begins with a byte order mark; send it without"},
		{"YAML", "spec:\n  maxReplicas: 3\n", "the body is not JSON: it begins with `spec: maxReplicas: 3`; send a JSON object such as {\"target\": …, \"spec\": …, \"scale\": …}"},
		{"YAML that begins as true does", "target: clusters/a\n", "the body is not JSON: it begins with `target: clusters/a`; send a JSON object such as {\"target\": …, \"spec\": …, \"scale\": …}"},
		{"a YAML document", "\n---\nspec: {}\n", "the body is not JSON: it begins with `--- spec: {}`; send a JSON object such as {\"target\": …, \"spec\": …, \"scale\": …}"},
		{"a form", "dryRun=true", "the body is not JSON: it begins with `dryRun=true`; send a JSON object such as {\"target\": …, \"spec\": …, \"scale\": …}"},
		{"bytes that are not UTF-8", "{\"requestId\": \"\xff\"}", `invalid UTF-8 at line 1, column 16: the byte 0xff`},
		{"lists nested without end", strings.Repeat("[", 10000), `nested more than 100 levels deep at line 1, column 101`},
		{"objects nested too deeply", strings.Repeat(`{"spec":`, 10000) + "1" + strings.Repeat("}", 10000), `nested more than 100 levels deep at line 1, column 801`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := violations(t, tt.text, recommendRequest()); len(got) != 1 || got[0] != tt.want {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestUnmarshalCountsBracketsOnlyOutsideStrings(t *testing.T) {
	text := `{"requestId": "\\\"` + strings.Repeat("[", 200) + `", "nope": 1}`
	want := []string{"nope: unknown field"}
	if got := violations(t, text, recommendRequest()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnmarshalLeavesUnusualTypesToProtojson(t *testing.T) {
	got := violations(t, `{"a": [1, {"b": null}], "a": 2}`, &structpb.Struct{})
	if want := []string{`(line 1:25): duplicate map key "a"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestErrorIsBounded(t *testing.T) {
	err := restjson.Unmarshal([]byte(`{"pods": [`+strings.TrimSuffix(strings.Repeat(`{"nmae": "a"},`, 1000), ",")+`]}`), recommendRequest())
	invalid, ok := err.(*restjson.Error)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	if len(invalid.Violations) != 100 || !invalid.Truncated {
		t.Errorf("%d violations, truncated %t, want 100, true", len(invalid.Violations), invalid.Truncated)
	}
	unknown := `unknown field, did you mean "name"?`
	want := fmt.Sprintf("invalid request: pods[0].nmae: %[1]s; pods[1].nmae: %[1]s; pods[2].nmae: %[1]s; and at least 97 more", unknown)
	if got := err.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestErrorSummary(t *testing.T) {
	tests := []struct {
		name string
		err  restjson.Error
		want string
	}{
		{
			"one problem of the whole text",
			restjson.Error{Violations: []restjson.Violation{{Description: "wrong"}}},
			"invalid request: wrong",
		},
		{
			"the first three problems and a count",
			restjson.Error{Violations: []restjson.Violation{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}}},
			"invalid request: a: 1; b: 2; c: 3; and 1 more",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Every field that takes a part of a Kubernetes object says so of a whole one, however deep it is.
func TestUnmarshalRefusesWholeObjects(t *testing.T) {
	whole := map[protoreflect.FullName]string{
		"setpoint.v1.HorizontalPodAutoscalerSpec":   `must be the object's spec, is the whole object: send what it has as "spec"`,
		"setpoint.v1.HorizontalPodAutoscalerStatus": `must be the object's status, is the whole object: send what it has as "status"`,
	}
	const object = `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": {"maxReplicas": 3}, "status": {}}`
	fields := 0
	var walk func(root, md protoreflect.MessageDescriptor, path, before, after string, above []protoreflect.FullName)
	walk = func(root, md protoreflect.MessageDescriptor, path, before, after string, above []protoreflect.FullName) {
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if fd.Message() == nil || fd.IsMap() || slices.Contains(above, fd.Message().FullName()) {
				continue
			}
			at, opening, closing := strings.TrimPrefix(path+"."+fd.JSONName(), "."), before+`{"`+fd.JSONName()+`": `, "}"+after
			if fd.IsList() {
				at, opening, closing = at+"[0]", opening+"[", "]"+closing
			}
			if want := whole[fd.Message().FullName()]; want != "" {
				fields++
				err := restjson.Unmarshal([]byte(opening+object+closing), dynamicpb.NewMessage(root))
				var got *restjson.Error
				if !errors.As(err, &got) || len(got.Violations) != 1 || got.Violations[0] != (restjson.Violation{Field: at, Description: want}) {
					t.Errorf("%s %s: %v, want %s", root.Name(), at, err, want)
				}
				continue
			}
			walk(root, fd.Message(), at, opening, closing, append(above, fd.Message().FullName()))
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto, setpointv1.File_setpoint_v1_target_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto, setpointv1.File_setpoint_v1_operations_service_proto,
	} {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				input := file.Services().Get(i).Methods().Get(j).Input()
				walk(input, input, "", "", "", nil)
			}
		}
	}
	if fields < 6 {
		t.Errorf("only %d fields take a spec or a status", fields)
	}
	// A misspelled or unknown field of a spec is none.
	for _, text := range []string{`{"spec": {"kind": "x"}}`, `{"spec": {"spec": {}}}`, `{"scale": {"kind": "Scale", "spec": {}}}`} {
		if err := restjson.Unmarshal([]byte(text), &setpointv1.RecommendRequest{}); err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
