package config

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// PrintChecked prints the settings after all checks, for --check, as a config file.
func PrintChecked(cmd *cobra.Command) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), "# The configuration is valid. Secrets are masked; the comment \"set\" marks settings that were given.\n"+effective(cmd.Flags()))
	return err
}

// effective renders the current settings as a config file.
func effective(flags *pflag.FlagSet) string {
	var b strings.Builder
	for _, flag := range settings(flags) {
		if flag.Name == fileFlag || flag.Hidden {
			continue
		}
		var text string
		if values := list(flag); values != nil {
			elements := values.GetSlice()
			for i, element := range elements {
				elements[i] = yamlText(flag, Mask(element))
			}
			text = "[" + strings.Join(elements, ", ") + "]"
		} else {
			text = yamlText(flag, Mask(flag.Value.String()))
		}
		if flag.Changed {
			text += " # set"
		}
		fmt.Fprintf(&b, "%s: %s\n", flag.Name, text)
	}
	return b.String()
}
