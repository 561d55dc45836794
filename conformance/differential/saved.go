package differential

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// ReadSaved returns the scenarios saved for a profile: the files
// folder/profile/*.jsonl.
func ReadSaved(folder, profile string) ([]*recording.Scenario, error) {
	files, err := filepath.Glob(filepath.Join(folder, profile, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var saved []*recording.Scenario
	for _, file := range files {
		scenarios, err := readFile(file)
		if err != nil {
			return nil, err
		}
		saved = append(saved, scenarios...)
	}
	return saved, nil
}

// Save writes a finding to its own file, whose name it returns.
func (f *Finding) Save(folder, profile string) (string, error) {
	var b bytes.Buffer
	w := recording.NewWriter(&b)
	if err := w.Write(f.Scenario); err != nil {
		return "", fmt.Errorf("write %s: %w", f.Scenario.Name, err)
	}
	sum := fnv.New32a()
	_, _ = sum.Write(b.Bytes()) // never fails
	file := filepath.Join(folder, profile, fmt.Sprintf("%08x.jsonl", sum.Sum32()))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, b.Bytes(), 0o644)
}

func readFile(file string) ([]*recording.Scenario, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var scenarios []*recording.Scenario
	for scenario, err := range recording.NewReader(file, f).All() {
		if err != nil {
			return nil, err
		}
		scenarios = append(scenarios, scenario)
	}
	return scenarios, nil
}
