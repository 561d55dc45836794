package differential

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// reference is the profile of recordings that name none.
const reference = "v1.36"

// Version is a version of Kubernetes with an oracle.
type Version struct {
	// Profile of Setpoint; also the folder of the module that has the controller.
	Profile string
	// Release is the patch release that is built.
	Release string
}

// Versions returns the versions, the reference first.
func Versions() []Version {
	return []Version{
		{reference, "v1.36.3"}, {"v1.37", "v1.37.1"}, {"v1.28", "v1.28.15"}, {"v1.19", "v1.19.0"}, {"v1.15", "v1.15.9"},
	}
}

// Named returns the versions of those profiles, all of them for none.
func Named(profiles []string) ([]Version, error) {
	all := Versions()
	if len(profiles) == 0 {
		return all, nil
	}
	var named []Version
	for _, profile := range profiles {
		i := slices.IndexFunc(all, func(v Version) bool { return v.Profile == profile })
		if i < 0 {
			return nil, fmt.Errorf("no controller of profile %q can be asked", profile)
		}
		named = append(named, all[i])
	}
	return named, nil
}

// upstream is the package to cover, with its subpackages.
const upstream = "k8s.io/kubernetes/pkg/controller/podautoscaler/..."

// Build builds the oracle of a version. root is the folder of the conformance module,
// into the folder for the program; it returns the program's path. With coverage the
// program records which statements of the controller ran.
func (v Version) Build(ctx context.Context, root, into string, coverage bool) (string, error) {
	if coverage {
		return v.build(ctx, root, filepath.Join(into, "covered-"+v.Profile), "-cover", "-coverpkg="+upstream)
	}
	return v.build(ctx, root, filepath.Join(into, "oracle-"+v.Profile))
}

// build builds the program with those flags of go test, unless it was built before.
func (v Version) build(ctx context.Context, root, program string, flags ...string) (string, error) {
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	args := append([]string{"test", "-c", "-o", program}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, ".")...)
	build.Dir = filepath.Join(root, v.Profile)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the controller of %s: %w\n%s", v.Release, err, out)
	}
	return program, nil
}

// answerTimeout limits the time of an oracle for one scenario.
const answerTimeout = 2 * time.Minute

// Oracle is a process that runs scenarios on the real controller. It is not safe for
// concurrent use.
type Oracle struct {
	process *exec.Cmd
	in      io.WriteCloser
	answers *os.File
	lines   *bufio.Reader
	said    bytes.Buffer
}

// StartOracle starts a program that Build built. If it was built with coverage, Close
// writes that to the file coverage; empty: none.
func StartOracle(program, coverage string) (*Oracle, error) {
	args := []string{"-test.run=^TestOracle$", "-test.timeout=0", "-oracle.serve"}
	if coverage != "" {
		args = append(args, "-test.coverprofile="+coverage)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o := &Oracle{process: exec.Command(program, args...), answers: read, lines: bufio.NewReaderSize(read, 1<<20)}
	o.process.ExtraFiles = []*os.File{write}
	o.process.Stdout, o.process.Stderr = &o.said, &o.said
	if o.in, err = o.process.StdinPipe(); err == nil {
		err = o.process.Start()
	}
	err = errors.Join(err, write.Close())
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	return o, nil
}

// Close ends the process.
func (o *Oracle) Close() error {
	err := errors.Join(o.in.Close(), o.process.Wait(), o.answers.Close())
	if err != nil {
		return fmt.Errorf("the oracle: %w\n%s", err, o.said.String())
	}
	return nil
}

// ErrUndetermined means that the controller has no outcome for a scenario: it panicked,
// or two runs did not agree.
var ErrUndetermined = errors.New("the controller has no outcome")

// Ask returns the controller's outcome of each step of the scenario. It runs the
// scenario that many times, to find undetermined texts.
func (o *Oracle) Ask(scenario *recording.Scenario, runs int) ([]recording.Expect, error) {
	return o.AskText(scenario, len(scenario.Steps), runs)
}

// AskText is Ask for a scenario of that many steps in the form of JSON that package cluster reads.
func (o *Oracle) AskText(scenario any, steps, runs int) ([]recording.Expect, error) {
	request, err := json.Marshal(struct {
		Runs     int `json:"runs"`
		Scenario any `json:"scenario"`
	}{runs, scenario})
	if err != nil {
		return nil, err
	}
	deadline := time.AfterFunc(answerTimeout, func() { _ = o.process.Process.Kill() })
	defer deadline.Stop()
	if _, err := o.in.Write(append(request, '\n')); err != nil {
		return nil, fmt.Errorf("ask the oracle: %w\n%s", err, o.said.String())
	}
	line, err := o.lines.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("hear the oracle: %w\n%s", err, o.said.String())
	}
	var answer struct {
		Steps []recording.Expect `json:"steps"`
		Error string             `json:"error"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, fmt.Errorf("understand the oracle: %w", err)
	}
	if answer.Error != "" {
		first, _, _ := strings.Cut(answer.Error, "\n")
		return nil, fmt.Errorf("%w: %s", ErrUndetermined, first)
	}
	if len(answer.Steps) != steps {
		return nil, fmt.Errorf("the oracle answers %d of %d steps", len(answer.Steps), steps)
	}
	return answer.Steps, nil
}
