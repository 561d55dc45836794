package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// valueType is what Apply knows of the values of a flag type.
type valueType struct {
	// name completes "must be …".
	name string
	// tags are the YAML types of its values in a file. Nil: any but null.
	tags []string
}

const (
	boolTag   = "!!bool"
	floatTag  = "!!float"
	intTag    = "!!int"
	nullTag   = "!!null"
	stringTag = "!!str"
)

var (
	boolType     = &valueType{"true or false", []string{boolTag}}
	intType      = &valueType{"a whole number", []string{intTag}}
	floatType    = &valueType{"a number", []string{intTag, floatTag}}
	durationType = &valueType{`a duration such as "30s"`, []string{stringTag}}
	stringType   = &valueType{"a string", []string{stringTag}}
	// otherType is that of flags which the command defines itself. Only they can
	// say what is wrong with a value.
	otherType = &valueType{"a single value", nil}
)

// typeOf returns the type of a flag's values, or for a list flag of its elements.
func typeOf(flag *pflag.Flag) *valueType {
	switch strings.TrimSuffix(strings.TrimSuffix(flag.Value.Type(), "Slice"), "Array") {
	case "bool":
		return boolType
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "count":
		return intType
	case "float32", "float64":
		return floatType
	case "duration":
		return durationType
	case "string":
		return stringType
	}
	return otherType
}

// setText sets flag from the text of a variable. A list is separated by commas.
func setText(flags *pflag.FlagSet, flag *pflag.Flag, text string) error {
	if flag.Changed {
		return nil
	}
	err := flags.Set(flag.Name, text)
	if err == nil {
		return nil
	}
	if list(flag) != nil {
		return invalid(flag, err, "a list separated by commas, each ", text)
	}
	return invalid(flag, err, "", text)
}

// setList sets the list flag from the elements of a list in a file.
func setList(flag *pflag.Flag, elements []string) error {
	if err := list(flag).Replace(elements); err != nil {
		return invalid(flag, err, "a list, each ", strings.Join(elements, ", "))
	}
	flag.Changed = true
	return nil
}

// list is the flag's value if that is a list, or nil.
func list(flag *pflag.Flag) pflag.SliceValue {
	value, _ := flag.Value.(pflag.SliceValue)
	return value
}

// invalid says why a flag refused text, which it quotes only for types that
// hold no secrets.
func invalid(flag *pflag.Flag, err error, each, text string) error {
	var refused *pflag.InvalidValueError
	if errors.As(err, &refused) {
		err = refused.Unwrap() // The rest of it speaks of the command line.
	}
	switch known := typeOf(flag); {
	case known == otherType, known == stringType:
		return err
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range for %s", text, flag.Value.Type())
	default:
		return fmt.Errorf("must be %s%s, is %q", each, known.name, text)
	}
}
