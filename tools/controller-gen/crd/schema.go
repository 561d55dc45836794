package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schema is one node of a version's schema.
type schema = apiextensionsv1.JSONSchemaProps

// at changes the node at path: names of properties, separated by dots, and "[]" for the
// elements of a list, as in "spec.metrics.[].type". An empty path is the root.
func at(root *schema, path string, change func(*schema)) error {
	name, rest, _ := strings.Cut(path, ".")
	switch {
	case path == "":
		change(root)
		return nil
	case name == "[]":
		if root.Items == nil || root.Items.Schema == nil {
			return fmt.Errorf("%s: not a list", path)
		}
		return at(root.Items.Schema, rest, change)
	}
	// The values of a map can't be changed in place.
	property, ok := root.Properties[name]
	if !ok {
		return fmt.Errorf("%s: no such field, only %s", path, slices.Sorted(maps.Keys(root.Properties)))
	}
	err := at(&property, rest, change)
	root.Properties[name] = property
	return err
}

// atEach changes the nodes at several paths.
func atEach(root *schema, paths []string, change func(*schema)) error {
	for _, path := range paths {
		if err := at(root, path, change); err != nil {
			return err
		}
	}
	return nil
}

// walk visits every node below s, then s.
func walk(s *schema, visit func(*schema)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walk(&property, visit)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, visit)
	}
	visit(s)
}
