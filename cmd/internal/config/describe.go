package config

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// Applies reports whether variables and a config file set these flags, too: those with AddFlag.
func Applies(flags *pflag.FlagSet) bool { return flags.Lookup(fileFlag) != nil }

// Example renders a config file that explains every setting and sets its default.
func Example(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("# Every setting with its default value.\n")
	for _, group := range Grouped(flags, "") {
		if group.Title != "" {
			fmt.Fprintf(&b, "\n# %s\n# %s\n", group.Title, strings.Repeat("-", len(group.Title)))
		}
		for _, flag := range settings(group.Flags) {
			if flag.Name != fileFlag {
				_, usage := pflag.UnquoteUsage(flag)
				fmt.Fprintf(&b, "\n%s%s: %s\n", printable.Wrap(usage, "# ", "# ", 78), flag.Name, defaultText(flag))
			}
		}
	}
	return b.String()
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
		if d, err := time.ParseDuration(value); err == nil {
			return printable.Duration(d)
		}
	}
	return value
}
