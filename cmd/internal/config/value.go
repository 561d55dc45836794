package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// typeOf returns the type of a flag's values, or for a list flag of its elements. Flags that
// the command defines itself have type Any: only they can validate a value.
func typeOf(flag *pflag.Flag) *document.Type {
	switch strings.TrimSuffix(strings.TrimSuffix(flag.Value.Type(), "Slice"), "Array") {
	case "bool":
		return document.Boolean
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "count":
		return document.WholeNumber
	case "float32", "float64":
		return document.Number
	case "duration":
		return document.DurationValue
	case "string":
		return document.String
	}
	return document.Any
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

// invalid explains why a flag refused text. It quotes the text only for types that hold no
// secrets.
func invalid(flag *pflag.Flag, err error, each, text string) error {
	if refused, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = refused.Unwrap() // The rest of it speaks of the command line.
	}
	switch known := typeOf(flag); {
	case known == document.DurationValue:
		return fmt.Errorf("must be %s%s, is %q%s", each, known.Name(), text, document.WithUnit(text))
	case known == document.Any, known == document.String:
		return err
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range for %s", text, flag.Value.Type())
	default:
		return fmt.Errorf("must be %s%s, is %q", each, known.Name(), text)
	}
}
