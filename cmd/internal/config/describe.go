package config

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// Setting describes one setting for people.
type Setting struct {
	// Flag is how the command line spells it: --grpc-address.
	Flag string
	// Variable is how the environment spells it: SETPOINT_GRPC_ADDRESS.
	Variable string
	// Key is how the config file spells it: grpc-address. Empty for --config.
	Key string
	// Default is the default value as the config file would have it: ":9090"
	// with its quotes, 30s, ["a", "b"].
	Default string
	// Usage is its purpose, in one line.
	Usage string
}

// Describe returns the settings by flag name, without hidden and deprecated ones, whether or
// not flags have been set.
func Describe(flags *pflag.FlagSet) []Setting {
	var described []Setting
	for _, flag := range settings(flags) {
		if !flag.Hidden && flag.Deprecated == "" {
			described = append(described, describeFlag(flag))
		}
	}
	return described
}

// describeFlag is Describe for one flag.
func describeFlag(flag *pflag.Flag) Setting {
	_, usage := pflag.UnquoteUsage(flag)
	s := Setting{
		Flag:     "--" + flag.Name,
		Variable: Variable(flag.Name),
		Key:      flag.Name,
		Default:  defaultText(flag),
		Usage:    strings.Join(strings.Fields(usage), " "),
	}
	if flag.Name == fileFlag {
		s.Key = ""
	}
	return s
}

// Markdown renders the settings as a table, for documents. The config file's
// keys have no column: they are the flags without their dashes.
func Markdown(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| flag | variable | default | meaning |\n|---|---|---|---|\n")
	for _, s := range Describe(flags) {
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` | %s |\n", s.Flag, s.Variable, cell(s.Default), cell(s.Usage))
	}
	return b.String()
}

// cell is text as it stands in a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Example renders a config file that explains every setting and sets its default.
func Example(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("# Every setting with its default value.\n")
	for _, s := range Describe(flags) {
		if s.Key != "" {
			fmt.Fprintf(&b, "\n%s%s: %s\n", comment(s.Usage), s.Key, s.Default)
		}
	}
	return b.String()
}

// comment is text as comment lines of about 80 characters.
func comment(text string) string {
	const width = 78
	var b strings.Builder
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// defaultText is a flag's default as YAML.
func defaultText(flag *pflag.Flag) string {
	if list(flag) == nil {
		return yamlText(flag, flag.DefValue)
	}
	var elements []string
	for _, element := range defaultElements(flag) {
		elements = append(elements, yamlText(flag, element))
	}
	return "[" + strings.Join(elements, ", ") + "]"
}

// defaultElements splits a list flag's default, which pflag formats as comma-separated values
// in brackets.
func defaultElements(flag *pflag.Flag) []string {
	values := strings.TrimSuffix(strings.TrimPrefix(flag.DefValue, "["), "]")
	elements, err := csv.NewReader(strings.NewReader(values)).Read()
	if err != nil { // no elements
		return nil
	}
	return elements
}

// yamlText is one value of a flag as YAML.
func yamlText(flag *pflag.Flag, value string) string {
	switch typeOf(flag) {
	case document.String, document.Any:
		return strconv.Quote(value)
	case document.DurationValue:
		return shortDuration(value)
	}
	return value
}

// shortDuration is a duration as time.Duration prints it, without the zero
// minutes and seconds at its end: 5m for 5m0s.
func shortDuration(text string) string {
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
