package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// Forms of output.
const (
	AsText  = "text"
	AsTable = "table"
	AsJSON  = "json"
	AsYAML  = "yaml"
)

// OutputFlag is -o. It implements pflag.Value.
type OutputFlag struct {
	// Form is the chosen form.
	Form  string
	forms []string
}

// String implements pflag.Value.
func (o *OutputFlag) String() string { return o.Form }

// Type implements pflag.Value.
func (o *OutputFlag) Type() string { return "form" }

// Set implements pflag.Value.
func (o *OutputFlag) Set(form string) error {
	for _, f := range o.forms {
		if f == form {
			o.Form = form
			return nil
		}
	}
	return fmt.Errorf("must be one of %v", o.forms)
}

// NewOutputFlag returns the flag's value; the first form is the default.
func NewOutputFlag(forms ...string) *OutputFlag { return &OutputFlag{Form: forms[0], forms: forms} }

// ofFiles matches the names of values that are files or folders.
var ofFiles = regexp.MustCompile(`(?i)file|folder|path`)

// completing has the shell complete the forms of -o, and names of files only where a flag takes them, of a command and
// of those below it.
func completing(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			complete := cobra.NoFileCompletions
			if o, is := f.Value.(*OutputFlag); is {
				complete = cobra.FixedCompletions(o.forms, cobra.ShellCompDirectiveNoFileComp)
			} else if value, _ := pflag.UnquoteUsage(f); ofFiles.MatchString(value) {
				return
			}
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it fails only for what is registered twice, to the same effect
		})
	}
	for _, below := range cmd.Commands() {
		completing(below)
	}
}

// WriteMessage writes a message as JSON or YAML, in the form of the REST API.
func WriteMessage(w io.Writer, form string, msg proto.Message) error {
	out, err := (&restjson.Marshaler{Indent: "  "}).Marshal(msg)
	if err != nil {
		return err
	}
	return WriteJSON(w, form, out)
}

// WriteValue writes a value as JSON or YAML.
func WriteValue(w io.Writer, form string, value any) error {
	out, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return WriteJSON(w, form, out)
}

// WriteLine writes a value as a line of JSON.
func WriteLine(w io.Writer, value any) error {
	out, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return WriteJSON(w, AsJSON, out)
}

// WriteJSON writes JSON, or as YAML. Texts with characters that are not to reach a terminal, which the YAML
// writer escapes in part, leave the JSON as it is: with its escapes it is YAML, too.
func WriteJSON(w io.Writer, form string, out []byte) error {
	out = printable.JSON(out)
	if form == AsYAML {
		doc, err := yaml.JSONToYAML(out)
		if err != nil {
			return err
		}
		if text := string(doc); printable.Block(text) == text {
			_, err = w.Write(doc)
			return err
		}
	}
	_, err := w.Write(append(out, '\n'))
	return err
}

// Terminal describes where text goes: color and width where w is a terminal.
func Terminal(w io.Writer) explain.Options {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return explain.Options{}
	}
	o := explain.Options{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		o.Width = width
	}
	return o
}
