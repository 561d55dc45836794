package main

import (
	"encoding/json"
	"os"

	"github.com/setpoint-dev/setpoint/bench/report"
)

// write writes the report where it is wanted.
func (o *options) write(r *report.Report) error {
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.update != "" {
		if err := r.Update(o.update); err != nil {
			return err
		}
	}
	if o.markdown != "" {
		return os.WriteFile(o.markdown, []byte(r.Markdown()), 0o644)
	}
	if o.json == "" && o.update == "" {
		_, err := os.Stdout.WriteString(r.Markdown())
		return err
	}
	return nil
}
