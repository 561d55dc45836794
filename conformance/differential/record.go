package differential

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// recordedRuns is how often the controller runs a recorded scenario.
const recordedRuns = 8

// Record writes the recordings of a version in a folder again, and returns the names of
// the files. The scenarios of the reference exist; they get new outcomes of the
// controller. Those of other versions are generated from that many seeds, from 1 on,
// without those that depend on the platform, or on a library's words for a malformed
// selector.
func Record(ctx context.Context, version Version, root, work, folder string, scenarios int) (files []string, err error) {
	program, err := version.Build(ctx, root, work, false)
	if err != nil {
		return nil, err
	}
	oracle, err := StartOracle(program, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, oracle.Close()) }()
	if version.Profile != reference {
		file := filepath.Join(folder, version.Profile+".jsonl.gz")
		made, err := makeScenarios(ctx, version, scenarios)
		if err != nil {
			return nil, err
		}
		return []string{file}, recordTo(file, made, oracle, version.wordsSelectorsOtherwise)
	}
	for _, name := range []string{"curated", "fuzz"} {
		file := filepath.Join(folder, name+".jsonl.gz")
		recorded, err := readFile(file)
		if err != nil {
			return nil, err
		}
		if err := recordTo(file, recorded, oracle, func([]recording.Expect) bool { return false }); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// makeScenarios generates random scenarios for a version, with Setpoint as decider.
func makeScenarios(ctx context.Context, version Version, n int) (made []*recording.Scenario, err error) {
	service, err := StartService()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	parameters := generate.DefaultParameters(version.Profile)
	parameters.Extreme, parameters.Invalid = 0, 0
	for seed := uint64(1); len(made) < n; seed++ {
		play := service.NewPlay(ctx, version.Profile, true)
		scenario, err := generate.Scenario(seed, parameters, play)
		if endErr := play.End(); err == nil {
			err = endErr
		}
		switch {
		case errors.Is(err, ErrRefused):
			continue
		case err != nil:
			return nil, err
		case play.Platform >= 0:
			continue
		}
		made = append(made, scenario)
	}
	return made, nil
}

// recordTo writes the scenarios with the controller's outcomes, except those to leave
// out.
func recordTo(file string, scenarios []*recording.Scenario, oracle *Oracle, leaveOut func([]recording.Expect) bool) error {
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := recording.NewWriter(zipped)
	for _, scenario := range scenarios {
		expects, err := oracle.Ask(bare(scenario), recordedRuns)
		if errors.Is(err, ErrUndetermined) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", scenario.Name, err)
		}
		if leaveOut(expects) {
			continue
		}
		for i := range expects {
			scenario.Steps[i].Expect = &expects[i]
		}
		if err := w.Write(scenario); err != nil {
			return err
		}
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
