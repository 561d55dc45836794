// Grafana writes the dashboards of Setpoint as JSON files that Grafana 10 and later import:
//
//	go run ./deploy/monitoring/grafana deploy/helm/setpoint/files/dashboards
//
// A dashboard is a list of panels, and a panel is a title, a sentence and its queries; the
// rest of Grafana's model is the same for all of them and in panel.go and dashboard.go.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// dashboards lists all of them.
func dashboards() []dashboard {
	return []dashboard{targets(), target(), service(), store(), agent()}
}

func main() {
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: grafana DIRECTORY") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes a file for each dashboard.
func write(dir string) error {
	for _, d := range dashboards() {
		text, err := encode(d)
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", d.uid, err)
		}
		if err := os.WriteFile(filepath.Join(dir, d.uid+".json"), text, 0o644); err != nil { //nolint:gosec // not secret
			return err
		}
	}
	return nil
}

// encode returns the file of a dashboard. PromQL stays legible: < and > are not escaped.
func encode(d dashboard) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(d.json()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
