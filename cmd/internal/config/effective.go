package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Effective renders the current settings as a config file. mask hides secrets in a value, given
// the flag's name.
func Effective(flags *pflag.FlagSet, mask func(flag, value string) string) string {
	var b strings.Builder
	for _, flag := range settings(flags) {
		if flag.Name == fileFlag || flag.Hidden {
			continue
		}
		var text string
		if values := list(flag); values != nil {
			elements := values.GetSlice()
			for i, element := range elements {
				elements[i] = yamlText(flag, mask(flag.Name, element))
			}
			text = "[" + strings.Join(elements, ", ") + "]"
		} else {
			text = yamlText(flag, mask(flag.Name, flag.Value.String()))
		}
		if flag.Changed {
			text += " # set"
		}
		fmt.Fprintf(&b, "%s: %s\n", flag.Name, text)
	}
	return b.String()
}
