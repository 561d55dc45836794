package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// description is the API's, which is generated from the .proto files.
const description = "../api/openapi/setpoint.openapi.json"

// schemaField describes a field to the playground's editor.
type schemaField struct {
	// Text is its description, Of the message it contains, Values its valid words.
	Text   string   `json:"text,omitempty"`
	Of     string   `json:"of,omitempty"`
	List   bool     `json:"list,omitempty"`
	Values []string `json:"values,omitempty"`
}

// schema generates the module "schema:autoscaling": the messages of a spec, by name, with
// their fields, for the editor's completion.
func schema(root string) api.Plugin {
	return api.Plugin{Name: "schema", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: `^schema:autoscaling$`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{Path: a.Path, Namespace: "schema"}, nil
		})
		b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "schema"}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
			made, err := messages(filepath.Join(root, description))
			if err != nil {
				return api.OnLoadResult{}, err
			}
			text := string(made)
			return api.OnLoadResult{Contents: &text, Loader: api.LoaderJSON}, nil
		})
	}}
}

type property struct {
	Ref         string     `json:"$ref"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Enum        []string   `json:"enum"`
	Items       *property  `json:"items"`
	AllOf       []property `json:"allOf"`
}

// message is that which the field or its elements are, "" for none.
func (p property) message() string {
	switch {
	case p.Items != nil:
		return p.Items.message()
	case len(p.AllOf) > 0:
		return p.AllOf[0].message()
	}
	return strings.TrimPrefix(p.Ref, "#/components/schemas/")
}

func messages(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]property `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := map[string]map[string]schemaField{}
	wanted := []string{"HorizontalPodAutoscalerSpec"}
	for len(wanted) > 0 {
		message := wanted[0]
		wanted = wanted[1:]
		if out[message] != nil {
			continue
		}
		definition, there := all.Components.Schemas[message]
		if !there {
			return nil, fmt.Errorf("%s has no %s", name, message)
		}
		out[message] = map[string]schemaField{}
		for key, p := range definition.Properties {
			f := schemaField{Text: strings.TrimSpace(p.Title + " " + p.Description), Of: p.message(), List: p.Type == "array", Values: p.Enum}
			if f.Of != "" {
				wanted = append(wanted, f.Of)
			}
			out[message][key] = f
		}
	}
	return json.Marshal(out)
}
