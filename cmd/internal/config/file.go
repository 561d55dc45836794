package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/setpoint-dev/setpoint/spelling"
)

// applyFile sets the flags that are not set yet from the file at path.
func applyFile(flags *pflag.FlagSet, path string) []error {
	data, err := os.ReadFile(path)
	if err != nil {
		return []error{fmt.Errorf("config file: %w", err)}
	}
	document, err := parse(data)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	f := file{path: path, flags: flags, lines: map[string]int{}}
	f.apply(document)
	return f.problems
}

// parse returns the content of the one YAML document in data. A file that says
// nothing, for instance one of comments only, is an empty map.
func parse(data []byte) (*yaml.Node, error) {
	nothing := &yaml.Node{Kind: yaml.MappingNode}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nothing, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("must hold one document, holds several")
	}
	content := document.Content[0]
	if content.ShortTag() == nullTag {
		return nothing, nil
	}
	return content, nil
}

// file is a config file that is being applied.
type file struct {
	path     string
	flags    *pflag.FlagSet
	lines    map[string]int // of the keys so far
	problems []error
}

// report notes a problem at a node.
func (f *file) report(at *yaml.Node, format string, args ...any) {
	problem := fmt.Errorf(format, args...)
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %w", f.path, at.Line, problem))
}

// apply applies the content of the file.
func (f *file) apply(document *yaml.Node) {
	if document.Kind != yaml.MappingNode {
		f.report(document, "must be a map of settings, is %s", describe(document))
		return
	}
	for i := 0; i < len(document.Content); i += 2 {
		f.entry(document.Content[i], document.Content[i+1])
	}
}

// entry applies one key and its value.
func (f *file) entry(key, value *yaml.Node) {
	if key.Kind != yaml.ScalarNode {
		f.report(key, "a key must be the name of a setting, is %s", describe(key))
		return
	}
	name := key.Value
	if first, ok := f.lines[name]; ok {
		f.report(key, "%s: is there twice, first in line %d", name, first)
		return
	}
	f.lines[name] = key.Line
	flag := f.setting(name)
	switch {
	case flag == nil:
		f.report(key, "%s: no such setting%s", name, f.didYouMean(name))
	case name == fileFlag:
		f.report(key, "%s: cannot be set in a config file", name)
	default:
		if err := f.set(flag, resolve(value)); err != nil {
			f.report(key, "%s: %w", name, err)
		}
	}
}

// setting returns the flag with the given name, or nil.
func (f *file) setting(name string) *pflag.Flag {
	for _, flag := range settings(f.flags) {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}

// didYouMean is ", did you mean …?" if a setting's name is close to name, or "".
func (f *file) didYouMean(name string) string {
	var names []string
	for _, flag := range settings(f.flags) {
		names = append(names, flag.Name)
	}
	if guess, ok := spelling.Closest(name, names); ok {
		return fmt.Sprintf(", did you mean %s?", guess)
	}
	return ""
}

// set checks a value's type, and sets the flag to it unless it is set already.
func (f *file) set(flag *pflag.Flag, value *yaml.Node) error {
	if list(flag) != nil {
		return setElements(flag, value)
	}
	if err := checkScalar(typeOf(flag), value); err != nil {
		return err
	}
	return setText(f.flags, flag, value.Value)
}

// setElements is set for a list flag.
func setElements(flag *pflag.Flag, value *yaml.Node) error {
	if value.Kind != yaml.SequenceNode {
		return fmt.Errorf("must be a list, is %s", describe(value))
	}
	elements := make([]string, len(value.Content))
	for i, node := range value.Content {
		element := resolve(node)
		if err := checkScalar(typeOf(flag), element); err != nil {
			return fmt.Errorf("element %d: %w", i+1, err)
		}
		elements[i] = element.Value
	}
	if flag.Changed {
		return nil
	}
	return setList(flag, elements)
}

// checkScalar returns an error unless value is a scalar of the given type.
func checkScalar(want *valueType, value *yaml.Node) error {
	isScalar := value.Kind == yaml.ScalarNode && value.ShortTag() != nullTag
	if isScalar && (want.tags == nil || slices.Contains(want.tags, value.ShortTag())) {
		return nil
	}
	hint := ""
	if isScalar && want == stringType {
		hint = "; put it in quotes"
	}
	return fmt.Errorf("must be %s, is %s%s", want.name, describe(value), hint)
}

// resolve is the node that an alias stands for, or node itself.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// describe names the type of a YAML value. It does not quote the value, which
// may be a secret in the wrong place.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case nullTag:
		return "empty"
	case boolTag:
		return "a boolean"
	case intTag, floatTag:
		return "a number"
	case stringTag:
		return "a string"
	}
	return "a " + node.ShortTag()
}
