package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/setpoint-dev/setpoint/api/setpoint/v1" // registers the contract
	"github.com/setpoint-dev/setpoint/server/validation"
)

// addRules adds what the contract says of fields to the schemas of its messages: the rules of
// buf.validate; by their comments those that only answers have ("Output only."), and where the
// rules are those of Kubernetes, which fields must be set ("Required.") and their words. Rules in
// CEL and of durations are in descriptions only. Answers may get further words: they have no lists.
func addRules(schemas openapi3.Schemas) error {
	for name, schema := range schemas {
		message := strings.TrimSuffix(name, "Body")
		if message != name {
			message += "Request"
		}
		kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("setpoint.v1." + message))
		if err != nil {
			if name == "Status" || name == "Any" {
				continue
			}
			return fmt.Errorf("the schema %s is of no message of the contract: %w", name, err)
		}
		missing := validation.Structure(kind.New().Interface())
		for key, property := range schema.Value.Properties {
			field := kind.Descriptor().Fields().ByJSONName(key)
			if field == nil {
				return fmt.Errorf("%s has no field %s", message, key)
			}
			if says(property, "Required.") || slices.ContainsFunc(missing, func(v validation.Violation) bool { return v.Field == key }) {
				schema.Value.Required = append(schema.Value.Required, key)
			}
			if property.Ref == "" {
				property.Value.ReadOnly = says(property, "Output only.")
				addRulesOf(field, property.Value)
			}
		}
		slices.Sort(schema.Value.Required)
	}
	return nil
}

var (
	sentences = regexp.MustCompile(`[^.]*\.(\s+|$)`)
	// wordList begins the comment of a field that has a few words only.
	wordList = regexp.MustCompile(`^"[A-Z][^.]*\.`)
	word     = regexp.MustCompile(`"(\w+)"`)
)

func says(property *openapi3.SchemaRef, sentence string) bool {
	return property.Ref == "" && slices.ContainsFunc(sentences.FindAllString(comment(property.Value), -1),
		func(s string) bool { return strings.TrimSpace(s) == sentence })
}

// comment is a field's, which the gateway divides into a title and a description.
func comment(schema *openapi3.Schema) string {
	return strings.TrimSpace(schema.Title + " " + schema.Description)
}

func addRulesOf(field protoreflect.FieldDescriptor, schema *openapi3.Schema) {
	rules := validation.RulesOf(field)
	if text := rules.GetString(); text != nil {
		schema.MinLength, schema.MaxLength = text.GetMinLen(), text.MaxLen
		schema.Pattern = text.GetPattern()
		for _, word := range text.GetIn() { // with "", which answers have where it is absent
			schema.Enum = append(schema.Enum, word)
		}
	} else if field.ParentFile().Path() == "setpoint/v1/autoscaling.proto" {
		for _, found := range word.FindAllStringSubmatch(wordList.FindString(comment(schema)), -1) {
			schema.Enum = append(schema.Enum, found[1])
		}
	}
	if number := rules.GetInt32(); number != nil {
		if number.HasGte() {
			schema.Min = new(float64(number.GetGte()))
		}
		if number.HasLte() {
			schema.Max = new(float64(number.GetLte()))
		}
	}
	if number := rules.GetDouble(); number.HasGte() {
		schema.Min = new(number.GetGte())
	}
	if list := rules.GetRepeated(); list != nil {
		schema.MinItems, schema.MaxItems = list.GetMinItems(), list.MaxItems
	}
	if pairs := rules.GetMap(); pairs != nil {
		schema.MaxProps = pairs.MaxPairs
	}
}
