package config

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// maxBytes bounds a file of settings.
const maxBytes = 1 << 20

// applyFile sets the flags that are not set yet from the file at path. An empty file sets none.
func applyFile(flags *pflag.FlagSet, path string) []error {
	data, err := files.Read(path, maxBytes)
	if err != nil {
		return []error{fmt.Errorf("config file: %w", err)}
	}
	f := file{flags}
	err = document.ReadOrNone(path, data, func(root document.Value) { root.Entries(f.entry) })
	var all interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &all):
		return all.Unwrap()
	}
	return []error{err}
}

// file is a config file that is being applied.
type file struct{ flags *pflag.FlagSet }

// entry applies one key and its value.
func (f file) entry(name string, at, value document.Value) {
	flag := f.setting(name)
	switch {
	case flag == nil:
		at.Refuse("%s: no such setting%s", name, f.didYouMean(name))
	case name == fileFlag:
		value.Refuse("cannot be set in a config file")
	default:
		f.set(flag, value)
	}
}

// setting returns the flag with the given name, or nil.
func (f file) setting(name string) *pflag.Flag {
	for _, flag := range settings(f.flags) {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}

// didYouMean is ", did you mean …?" if a setting's name is close to name, or "".
func (f file) didYouMean(name string) string {
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
func (f file) set(flag *pflag.Flag, value document.Value) {
	var err error
	if list(flag) != nil {
		err = setElements(flag, value)
	} else if text, ok := value.Scalar(typeOf(flag)); ok {
		err = setText(f.flags, flag, text)
	}
	if err != nil {
		value.Refuse("%s", err)
	}
}

// setElements is set for a list flag.
func setElements(flag *pflag.Flag, value document.Value) error {
	elements := []string{}
	right := value.ListOrNone(func(_ int, element document.Value) {
		if text, ok := element.Scalar(typeOf(flag)); ok {
			elements = append(elements, text)
		}
	})
	if !right || flag.Changed {
		return nil
	}
	return setList(flag, elements)
}
