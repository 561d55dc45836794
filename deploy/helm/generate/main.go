// Generate writes the chart's values.schema.json and README.md from values.yaml and its
// comments, and from the programs' references, which have their flags.
//
//	go run ./deploy/helm/generate deploy/helm/setpoint docs/reference/cli
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate CHART REFERENCES")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(chart, references string) error {
	for path, command := range settings {
		flags, err := flagsOf(references, command)
		if err != nil {
			return err
		}
		shapes[path] = object{
			"type": "object", "additionalProperties": object{"type": []string{"string", "number", "boolean"}},
			"propertyNames": object{"enum": flags},
		}
	}
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	values, err := read(text)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := schemaOf(values)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(chart, "values.schema.json"), schema); err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(chart, "README.md.tmpl"))
	if err != nil {
		return err
	}
	return write(filepath.Join(chart, "README.md"), append(head, tableOf(values)...))
}

func write(path string, text []byte) error {
	return os.WriteFile(path, text, 0o644) //nolint:gosec // not secret
}

// value is one entry of values.yaml.
type value struct {
	path    string // service.replicas
	about   string
	node    *yaml.Node
	entries []value // of a mapping with entries of its own
}

// read returns the entries of values.yaml. Each has a comment before it, but mappings may do
// without.
func read(text []byte) ([]value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	return entriesOf("", document.Content[0])
}

func entriesOf(path string, mapping *yaml.Node) ([]value, error) {
	var out []value
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		v := value{path: strings.TrimPrefix(path+"."+key.Value, "."), node: node, about: sentence(key.HeadComment)}
		// A mapping written in braces is one value.
		if node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle == 0 && !open[v.path] {
			entries, err := entriesOf(v.path, node)
			if err != nil {
				return nil, err
			}
			v.entries = entries
		} else if v.about == "" {
			return nil, fmt.Errorf("line %d: %s has no comment", key.Line, v.path)
		}
		out = append(out, v)
	}
	return out, nil
}

// sentence returns a comment as one line. A comment of the file stands before an empty line.
func sentence(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(l, "#"))
	}
	return strings.Join(lines, " ")
}

// open are the mappings whose keys the user chooses.
var open = map[string]bool{
	"service.settings": true, "agent.settings": true, "service.policy": true, "tls.certManager.issuerRef": true,
	"service.resources": true, "agent.resources": true, "redis.resources": true, "externalMetrics.resources": true,
}

// choices are the values that a string may have.
var choices = map[string][]string{
	"image.pullPolicy": {"Always", "IfNotPresent", "Never"},
	"tls.mode":         {"generated", "existing", "certManager"},
	"redis.mode":       {"bundled", "external", "none"},
	"agent.source":     {"autoscaler", "hpa", "both"},
}

// bounds are those of numbers; others must not be below 0.
var bounds = map[string][2]int{
	"service.autoscaling.minReplicas":          {1, 0},
	"service.autoscaling.maxReplicas":          {1, 0},
	"service.autoscaling.targetCPUUtilization": {1, 0},
	"tls.validDays":                            {1, 36500},
}

// patterns are the patterns of strings.
var patterns = map[string]string{
	// A segment of a target's name, and the end of an identity in the file of tokens: external-metrics-CLUSTER.
	"cluster":   "^[A-Za-z0-9._-]{0,235}[A-Za-z0-9]$",
	"redis.url": "^(rediss?://.+)?$",
	// host:port, several of them, or a gRPC target.
	"agent.server":     "^[^ ]*$",
	"fullnameOverride": "^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
}

// settings have the flags of a command as keys, and what a variable of the environment can hold. A pod ends at a variable
// that it does not know, but only after Helm has told that all is well.
var settings = map[string]string{"service.settings": "setpoint serve", "agent.settings": "setpoint-kubernetes agent"}

var flagLine = regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)")

// flagsOf returns the flags of a command by its program's reference.
func flagsOf(references, command string) ([]string, error) {
	program, _, _ := strings.Cut(command, " ")
	path := filepath.Join(references, program+".md")
	text, err := os.ReadFile(path) //nolint:gosec // the tree's own
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), "\n## `"+command+"`\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var flags []string
	for _, found := range flagLine.FindAllStringSubmatch(section, -1) {
		flags = append(flags, found[1])
	}
	if flags == nil {
		return nil, fmt.Errorf("%s has no flags of %s", path, command)
	}
	return flags, nil
}

// references are mappings with exactly these keys, so that a misspelt one is not ignored.
var references = map[string][]string{
	"redis.passwordSecret":         {"name", "key"},
	"redis.sentinelPasswordSecret": {"name", "key"},
	"redis.caSecret":               {"name", "key"},
	"redis.clientSecret":           {"name"},
	"tls.certManager.issuerRef":    {"name", "kind", "group"},
}

// texts are mappings with keys chosen by the user, whose values Kubernetes accepts as strings
// only.
var texts = map[string]bool{
	"service.nodeSelector": true, "agent.nodeSelector": true, "redis.nodeSelector": true, "externalMetrics.nodeSelector": true, "service.podAnnotations": true, "agent.podAnnotations": true,
	"monitoring.labels": true, "monitoring.dashboardLabel": true,
}

// named are lists of objects that have a name.
var named = map[string]bool{"imagePullSecrets": true, "service.extraVolumes": true, "service.extraVolumeMounts": true, "agent.extraVolumes": true, "agent.extraVolumeMounts": true}

type object = map[string]any

// shapes are those of values by their paths, or by the ends of these where the values become parts of pods and policies. Kubernetes drops keys that
// it does not know, and Helm goes on: a rule without its ports is about all ports, a toleration without its key about all taints.
var shapes = map[string]object{
	"resources":     exactly("limits", "requests", "claims"),
	"affinity":      exactly("nodeAffinity", "podAffinity", "podAntiAffinity"),
	"tolerations":   listOf(exactly("key", "operator", "value", "effect", "tolerationSeconds")),
	"serviceEgress": egress, "agentEgress": egress,
}

var (
	selector = exactly("matchLabels", "matchExpressions")
	egress   = listOf(object{"type": "object", "additionalProperties": false, "properties": object{
		"ports": listOf(exactly("port", "endPort", "protocol")),
		"to": listOf(object{"type": "object", "additionalProperties": false, "properties": object{
			"podSelector": selector, "namespaceSelector": selector, "ipBlock": exactly("cidr", "except"),
		}}),
	}})
)

// exactly is an object with no other keys.
func exactly(keys ...string) object {
	properties := object{}
	for _, key := range keys {
		properties[key] = object{}
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties}
}

func listOf(items object) object { return object{"type": "array", "items": items} }

// callers are what service.callers lists. An identity is also part of a Secret's name.
var callers = object{
	"type": "object", "additionalProperties": false, "required": []string{"identity", "verbs"},
	"properties": object{
		"identity": object{"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?$"},
		// An empty list would be all of them.
		"namespaces": object{"type": "array", "minItems": 1, "items": object{"type": "string"}},
		"verbs":      verbs,
	},
}

// An instance that runs keeps the policy it has beside one that it refuses, and the next that starts ends: what is wrong has to
// be told before.
var (
	verbs = object{"type": "array", "minItems": 1, "items": object{"enum": append(policy.Everything.Names(), "*")}}
	// callersOf are patterns or names of callers, of some kind.
	callersOf = object{"type": "array", "minItems": 1, "items": object{"type": "string", "pattern": "^" + auth.AnonymousName + "$|[:*]"}}
	grants    = object{"type": "array", "items": object{
		"type": "object", "additionalProperties": false, "required": []string{"clusters", "verbs"},
		"anyOf": []object{{"required": []string{"identities"}}, {"required": []string{"groups"}}},
		"properties": object{
			"identities": callersOf, "groups": callersOf, "clusters": segments, "namespaces": segments, "verbs": verbs, "description": object{"type": "string"},
		},
	}}
	segments      = object{"type": "array", "minItems": 1, "items": object{"type": "string", "pattern": "^[A-Za-z0-9._*-]{1,253}$"}}
	policyEntries = object{
		"grants": object{"anyOf": []object{{"type": "null"}, grants}}, "limits": object{},
		"options": object{"items": object{"properties": object{"defaults": object{"properties": object{"profile": object{"enum": recommender.ProfileNames()}}}}}},
	}
)

// specs are what service.specs lists: the service says what else is wrong with them, the name is a part of a grant.
var specs = object{
	"type": "object", "required": []string{"name", "spec"},
	"properties": object{
		"name": targetName, "spec": object{"type": "object", "properties": object{"maxReplicas": object{"minimum": 1}}},
		"fleet": object{"type": "object", "properties": object{"members": object{"type": "array", "items": object{
			"type": "object", "required": []string{"target"}, "properties": object{"target": targetName},
		}}}},
	},
}

var targetName = object{"type": "string", "pattern": "^clusters/[A-Za-z0-9._-]{1,253}/namespaces/[A-Za-z0-9._-]{1,253}/targets/[A-Za-z0-9._-]{1,253}$"}

func schemaOf(values []value) ([]byte, error) {
	schema := objectOf(values)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Values of the chart setpoint"
	// Helm gives these to every chart; a chart that has this one in it may choose by its value enabled whether to install it.
	properties, _ := schema["properties"].(object)
	properties["global"], properties["enabled"] = object{"type": "object"}, object{"type": "boolean"}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(schema)
	return b.Bytes(), err
}

func objectOf(values []value) object {
	properties, required := object{}, []string{}
	for _, v := range values {
		key := v.path[strings.LastIndexByte(v.path, '.')+1:]
		properties[key] = propertyOf(v)
		// Helm drops null values. Templates read inside these, and Kubernetes has no default
		// for a name or path.
		if v.entries != nil || references[v.path] != nil && len(v.node.Content) > 0 || v.node.Tag == "!!str" && v.node.Value != "" {
			required = append(required, key)
		}
	}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func propertyOf(v value) object {
	property := object{}
	shape := shapes[v.path]
	if shape == nil {
		shape = shapes[v.path[strings.LastIndexByte(v.path, '.')+1:]]
	}
	switch {
	case v.entries != nil:
		property = objectOf(v.entries)
	case shape != nil:
		property = maps.Clone(shape)
	case references[v.path] != nil:
		keys := object{}
		for _, key := range references[v.path] {
			keys[key] = object{"type": "string"}
			if key == "key" {
				keys[key] = object{"type": "string", "minLength": 1}
			}
		}
		property["type"], property["additionalProperties"], property["properties"] = "object", false, keys
		if len(v.node.Content) > 0 {
			property["required"] = references[v.path]
		}
	case texts[v.path]:
		property["type"], property["additionalProperties"] = "object", object{"type": "string"}
	case v.path == "service.policy":
		property["type"], property["additionalProperties"], property["properties"] = "object", false, policyEntries
	case v.node.Kind == yaml.MappingNode:
		property["type"] = "object"
	case v.path == "tls.names":
		property["type"], property["items"] = "array", object{"type": "string"}
	case v.path == "agent.namespaces":
		property["type"], property["uniqueItems"] = "array", true
		property["items"] = object{"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
	case named[v.path]:
		property["type"], property["items"] = "array", object{"type": "object", "required": []string{"name"}}
	case v.path == "service.callers":
		property["type"], property["items"] = "array", callers
	case v.path == "service.grants":
		property["type"], property["items"] = "array", grants["items"]
	case v.path == "service.specs":
		property["type"], property["items"] = "array", specs
	case choices[v.path] != nil:
		property["type"], property["enum"] = "string", choices[v.path]
	case v.node.Tag == "!!bool":
		property["type"] = "boolean"
	case v.node.Tag == "!!int":
		property["type"], property["minimum"] = "integer", bounds[v.path][0]
		if most := bounds[v.path][1]; most > 0 {
			property["maximum"] = most
		}
	default:
		property["type"] = "string"
		if v.node.Value != "" {
			property["minLength"] = 1
		}
		if patterns[v.path] != "" {
			property["pattern"] = patterns[v.path]
		}
	}
	if v.about != "" {
		property["description"] = v.about
	}
	return property
}

// tableOf returns the values as a table.
func tableOf(values []value) []byte {
	b := []byte("| value | default | meaning |\n|---|---|---|\n")
	var add func(values []value)
	add = func(values []value) {
		for _, v := range values {
			if v.entries != nil {
				add(v.entries)
				continue
			}
			b = fmt.Appendf(b, "| `%s` | `%s` | %s |\n", v.path, strings.ReplaceAll(inline(v.node), "|", `\|`), strings.ReplaceAll(v.about, "|", `\|`))
		}
	}
	add(values)
	return b
}

// inline returns a value on one line.
func inline(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		if node.Value == "" {
			return `""`
		}
		return node.Value
	}
	var v any
	if err := node.Decode(&v); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
