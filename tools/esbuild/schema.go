package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// description is the API's, which is generated from the .proto files.
const description = "../api/openapi/setpoint.swagger.json"

// schemaField describes a field to the playground's editor.
type schemaField struct {
	// Text is its description, Of the message it contains, Values the words that the
	// description quotes: its valid values.
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

var quoted = regexp.MustCompile(`"([A-Z][A-Za-z]+)"`)

type property struct {
	Ref         string    `json:"$ref"`
	Type        string    `json:"type"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Items       *property `json:"items"`
}

func messages(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all struct {
		Definitions map[string]struct {
			Properties map[string]property `json:"properties"`
		} `json:"definitions"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := map[string]map[string]schemaField{}
	wanted := []string{"v1HorizontalPodAutoscalerSpec"}
	for len(wanted) > 0 {
		message := wanted[0]
		wanted = wanted[1:]
		if out[message] != nil {
			continue
		}
		definition, there := all.Definitions[message]
		if !there {
			return nil, fmt.Errorf("%s has no %s", name, message)
		}
		out[message] = map[string]schemaField{}
		for key, p := range definition.Properties {
			f := schemaField{Text: strings.TrimSpace(p.Title + " " + p.Description), List: p.Type == "array"}
			ref := p.Ref
			if p.Items != nil {
				ref = p.Items.Ref
			}
			if f.Of = strings.TrimPrefix(ref, "#/definitions/"); f.Of != "" {
				wanted = append(wanted, f.Of)
			} else {
				for _, word := range quoted.FindAllStringSubmatch(f.Text, -1) {
					f.Values = append(f.Values, word[1])
				}
			}
			out[message][key] = f
		}
	}
	return json.Marshal(out)
}
