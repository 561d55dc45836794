package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/explain"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// Forms of output.
const (
	asText = "text"
	asJSON = "json"
	asYAML = "yaml"
)

// outputFlag is -o. It implements pflag.Value.
type outputFlag struct {
	form  string
	forms []string
}

func (o *outputFlag) String() string { return o.form }
func (o *outputFlag) Type() string   { return "form" }

func (o *outputFlag) Set(form string) error {
	for _, f := range o.forms {
		if f == form {
			o.form = form
			return nil
		}
	}
	return fmt.Errorf("must be one of %v", o.forms)
}

// newOutputFlag returns the flag's value; the first form is the default.
func newOutputFlag(forms ...string) *outputFlag { return &outputFlag{form: forms[0], forms: forms} }

// writeMessage writes a message as JSON or YAML, in the form of the REST API.
func writeMessage(w io.Writer, form string, msg proto.Message) error {
	out, err := (&restjson.Marshaler{Indent: "  "}).Marshal(msg)
	if err != nil {
		return err
	}
	if form == asYAML {
		if out, err = yaml.JSONToYAML(out); err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// terminal describes where text goes: color and width where w is a terminal.
func terminal(w io.Writer) explain.Options {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return explain.Options{}
	}
	o := explain.Options{Color: os.Getenv("NO_COLOR") == ""}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		o.Width = width
	}
	return o
}
