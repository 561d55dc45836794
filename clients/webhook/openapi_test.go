package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

var update = flag.Bool("update", false, "write the generated part of openapi.yaml")

const generated = "    # generated\n"

// contract returns the schemas of the service's contract that the text refers to, directly or
// indirectly, and does not define itself.
func contract(t *testing.T, own string) []byte {
	t.Helper()
	source := testpages.Read(t, "../../api/openapi/setpoint.openapi.json")
	var service struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	fatal.If(t, json.Unmarshal([]byte(source), &service))
	needed := map[string]json.RawMessage{}
	var need func(text string)
	need = func(text string) {
		for name, schema := range service.Components.Schemas {
			if _, known := needed[name]; !known && !strings.Contains(own, "\n    "+name+":") && (strings.Contains(text, schemas+name+"'") || strings.Contains(text, schemas+name+`"`)) {
				needed[name] = schema
				need(string(schema))
			}
		}
	}
	need(own)
	document, err := json.Marshal(needed)
	fatal.If(t, err)
	out, err := yaml.JSONToYAML(document)
	fatal.If(t, err)
	return []byte("    " + strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n    ") + "\n")
}

const schemas = "#/components/schemas/"

// The committed document has the service's current contract, and each field of this package.
func TestOpenAPIIsUpToDate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("openapi.yaml")
	fatal.If(t, err)
	own, _, ok := strings.Cut(string(text), generated)
	if !ok {
		t.Fatal("openapi.yaml has no line «# generated»")
	}
	want := append([]byte(own+generated), contract(t, own)...)
	if *update {
		fatal.If(t, os.WriteFile("openapi.yaml", want, 0o644))
	} else if !bytes.Equal(text, want) {
		t.Error("openapi.yaml is not up to date: go test ./clients/webhook -run OpenAPI -update")
	}
	d := openapi(t)
	for name, of := range map[string]reflect.Type{
		"Page": reflect.TypeFor[webhook.Page](), "Target": reflect.TypeFor[webhook.Target](), "Hold": reflect.TypeFor[webhook.TargetHold](),
		"Question": reflect.TypeFor[webhook.Question](), "Observation": reflect.TypeFor[webhook.Observation](),
		"Application": reflect.TypeFor[webhook.Application](), "Failure": reflect.TypeFor[webhook.Failure](),
	} {
		fields, _ := typed.Names(of)
		fields = slices.DeleteFunc(fields, func(name string) bool { return name == "scaleUpInUpdates" }) // no webhook has updates
		slices.Sort(fields)
		if described := slices.Sorted(maps.Keys(d.schema(schemas + name)["properties"].(map[string]any))); !slices.Equal(fields, described) {
			t.Errorf("%s has the fields %q, described are %q", name, fields, described)
		}
	}
}

// document is an OpenAPI document.
type document map[string]any

func openapi(t *testing.T) document {
	t.Helper()
	text := testpages.Read(t, "openapi.yaml")
	var d document
	fatal.If(t, yaml.UnmarshalStrict([]byte(text), &d))
	if name, ok := cut("", map[string]any(d)); ok {
		t.Errorf("%s has no value: quote the text before it, which a comma ends", name)
	}
	return d
}

// cut returns a name without a value: the rest of a text after a comma.
func cut(path string, value any) (string, bool) {
	switch value := value.(type) {
	case nil:
		return path, true
	case map[string]any:
		for name, one := range value {
			if path, ok := cut(path+"/"+name, one); ok {
				return path, true
			}
		}
	case []any:
		for i, one := range value {
			if path, ok := cut(fmt.Sprint(path, "/", i), one); ok {
				return path, true
			}
		}
	}
	return "", false
}

// schema follows a reference.
func (d document) schema(ref string) map[string]any {
	at := map[string]any(d)
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at, _ = at[part].(map[string]any)
	}
	return at
}

// check returns why a value does not match a schema: types, words, keys and required ones.
func (d document) check(path string, schema map[string]any, value any) error {
	if ref, ok := schema["$ref"].(string); ok {
		if schema = d.schema(ref); schema == nil {
			return fmt.Errorf("%s: there is no %s", path, ref)
		}
	}
	var wrong []error
	is := func(ok bool) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s: is %T, not %v", path, value, schema["type"]))
		}
	}
	all, _ := schema["allOf"].([]any)
	for _, one := range all {
		wrong = append(wrong, d.check(path, one.(map[string]any), value))
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, value) {
		wrong = append(wrong, fmt.Errorf("%s: is %v, not one of %v", path, value, words))
	}
	switch schema["type"] {
	case "object":
		object, ok := value.(map[string]any)
		is(ok)
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, key := range required {
			if _, ok := object[key.(string)]; !ok {
				wrong = append(wrong, fmt.Errorf("%s.%s: is required", path, key))
			}
		}
		for key, v := range object {
			property, ok := properties[key].(map[string]any)
			if values, any := schema["additionalProperties"].(map[string]any); !ok && any {
				property, ok = values, true
			}
			if !ok && properties != nil {
				wrong = append(wrong, fmt.Errorf("%s.%s: is not described", path, key))
				continue
			}
			wrong = append(wrong, d.check(path+"."+key, property, v))
		}
	case "array":
		list, ok := value.([]any)
		is(ok)
		items, _ := schema["items"].(map[string]any)
		for i, v := range list {
			wrong = append(wrong, d.check(fmt.Sprintf("%s[%d]", path, i), items, v))
		}
	case "string":
		_, ok := value.(string)
		is(ok)
	case "integer", "number":
		_, ok := value.(float64)
		is(ok)
	case "boolean":
		_, ok := value.(bool)
		is(ok)
	}
	return errors.Join(wrong...)
}

// content is the schema of a body of JSON.
func content(of any) map[string]any {
	body, _ := of.(map[string]any)
	kinds, _ := body["content"].(map[string]any)
	media, _ := kinds["application/json"].(map[string]any)
	schema, _ := media["schema"].(map[string]any)
	return schema
}

// The agent's calls and the fake server's answers match the document.
func TestCallsAreAsOpenAPIDescribesThem(t *testing.T) {
	t.Parallel()
	d := openapi(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Create(agenttest.Workload{Name: "web", Replicas: 3})
		for i := range 4 {
			w.Create(agenttest.Workload{Name: fmt.Sprintf("t%d", i), Replicas: 3})
		}
		w.edit("t0", func(e map[string]any) {
			e["period"], e["hold"] = "30s", map[string]any{"reason": "Deploying", "message": "x"}
			e["options"] = map[string]any{"tolerance": "0.2"}
		})
		watchedCalls(t, w, key)
		calls := w.recorded()
		seen := map[string]bool{}
		for _, c := range calls {
			operation, _ := d["paths"].(map[string]any)[c.path].(map[string]any)[strings.ToLower(c.method)].(map[string]any)
			if operation == nil {
				t.Errorf("%s %s is not described", c.method, c.path)
				continue
			}
			if len(c.body) > 0 {
				if err := d.checkBody(content(operation["requestBody"]), c.body); err != nil {
					t.Errorf("%s %s: %v", c.method, c.path, err)
				}
			}
			responses := operation["responses"].(map[string]any)
			response, ok := responses[fmt.Sprint(c.status)].(map[string]any)
			if !ok {
				response = responses["default"].(map[string]any)
			}
			if ref, ok := response["$ref"].(string); ok {
				response = d.schema(ref)
			}
			if err := d.checkBody(content(response), c.answer); err != nil && c.status != 304 {
				t.Errorf("%s %s: %d: %v", c.method, c.path, c.status, err)
			}
			seen[fmt.Sprint(c.path, " ", c.status)] = true
		}
		for _, call := range []string{"/targets 200", "/targets 304", "/observe 200", "/observe 404", "/apply 200", "/apply 409"} {
			if !seen[call] {
				t.Errorf("the test has no %s", call)
			}
		}
	})
}

func (d document) checkBody(schema map[string]any, body []byte) error {
	if schema == nil {
		return errors.New("no body is described")
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return d.check("body", schema, value)
}

// watchedCalls makes each call, with each of its answers.
func watchedCalls(t *testing.T, w *world, key agent.Key) {
	t.Helper()
	p := w.Platform()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(ctx, func(agent.Key) {}) }()
	listed()
	listed()
	o, err := p.Object(ctx, key, nil)
	fatal.If(t, err)
	seen := agenttest.Observe(t, p, o)
	fatal.If(t, p.Apply(ctx, o, seen, agent.Change{From: 3, To: 4, RecommendationID: "r1", Reason: "cpu"}))
	if err := p.Apply(ctx, o, seen, agent.Change{From: 3, To: 4, RecommendationID: "r2", Reason: "cpu"}); !errors.Is(err, agent.ErrMoved) {
		t.Fatal(err)
	}
	w.Remove(key.Name)
	if _, err := p.Observe(ctx, o); err == nil {
		t.Fatal("observed what is gone")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
