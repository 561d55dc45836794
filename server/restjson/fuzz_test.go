package restjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// FuzzUnmarshal compares Unmarshal with protojson: what protojson accepts means
// the same, except that empty policies are refused; what only Unmarshal accepts,
// protojson accepts once the numbers in quantity fields are strings, and it then
// means the same.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		string(request(1, `"500m"`)),
		string(request(2, `0.5`)),
		`{"spec": {"max_replicas": "1e1", "behavior": {"scaleUp": {"policies": [], "tolerance": 0.1}}}}`,
		`{"spec": {"behavior": {"scaleUp": {"p\u006flicies": []}}}, "options": {"tolerance": -1.5E+3}}`,
		`{"pods": [{"overhead": {"cpu": 1, "a b": 2}}, null], "evaluationTime": "2026-01-01T00:00:00Z", "pods": []}`,
		`{"customMetrics": [{"value": 1, "windowSeconds": "NaN", "metric": {"selector": {"matchLabels": {"\ud83d\ude00": "x"}}}}]}`,
		`{"options": {"downscaleStabilization": "-.5s", "scaleToZero": true}, "requestId": "\ud800"}`,
		`{"spec": {"maxReplicas": 1e}} `, `[{}]`, ` `, `{"a":[[[[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := recommendRequest(), recommendRequest()
		err := restjson.Unmarshal(data, got)
		switch protoErr := protojson.Unmarshal(data, want); {
		case err != nil && protoErr == nil:
			mustRefuseOnlyPolicies(t, err)
		case err != nil:
			mustBeReadable(t, err)
		case protoErr != nil:
			quoted := quoteQuantities(t, data)
			if err := protojson.Unmarshal(quoted, want); err != nil {
				t.Fatalf("accepted what protojson refuses with quantities quoted: %v", err)
			}
			fallthrough
		default:
			if !proto.Equal(got, want) {
				t.Fatalf("got  %v\nwant %v", got, want)
			}
		}
	})
}

func mustRefuseOnlyPolicies(t *testing.T, err error) {
	t.Helper()
	for _, v := range err.(*restjson.Error).Violations {
		if !strings.HasSuffix(v.String(), ".policies: Required value: must specify at least one Policy") {
			t.Fatalf("refused what protojson accepts: %v", v)
		}
	}
}

func mustBeReadable(t *testing.T, err error) {
	t.Helper()
	list := err.(*restjson.Error).Violations
	if len(list) == 0 || len(list) > 100 {
		t.Fatalf("%d violations", len(list))
	}
	for _, v := range list {
		if v.Description == "" || len(v.String()) > 2000 || strings.Contains(v.String(), "\n") {
			t.Fatalf("unreadable: %q", v)
		}
	}
}

// quoteQuantities makes strings of numbers under the names of quantity fields,
// wherever they are. It knows neither descriptors nor the package's own way; a
// field of another type with such a name (a policy's value) reads numbers from
// strings as well.
func quoteQuantities(t *testing.T, data []byte) []byte {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var document any
	if err := dec.Decode(&document); err != nil {
		t.Fatalf("accepted what is no JSON: %v", err)
	}
	text, err := json.Marshal(quotedBelow(document, false))
	fatal.If(t, err)
	return text
}

var quantityNames = map[string]bool{
	"value": true, "averageValue": true, "average_value": true, "tolerance": true,
	"requests": true, "overhead": true, "usage": true,
}

func quotedBelow(v any, quantity bool) any {
	switch v := v.(type) {
	case json.Number:
		if quantity {
			return v.String()
		}
	case []any:
		for i := range v {
			v[i] = quotedBelow(v[i], quantity)
		}
	case map[string]any:
		for name := range v {
			v[name] = quotedBelow(v[name], quantity || quantityNames[name])
		}
	}
	return v
}
