package simulation_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// What the seeds gave when the file was written, floats to the last bit: on any processor
// they must give the same.
func TestGoldenTrajectories(t *testing.T) {
	t.Parallel()
	const golden = "testdata/trajectories.txt"
	var out bytes.Buffer
	for seed := range uint64(12) {
		s, a := simulationtest.Random(seed, 40)
		fmt.Fprintf(&out, "seed %d\n", seed)
		n := 0
		result, err := simulation.Run(s, a, func(step *simulation.Step) error {
			if n++; n%8 != 0 { // what is served and lost sums up the steps between
				return nil
			}
			_, err := fmt.Fprintf(&out, "%s load %x served %x lost %x queued %x | %d pods ready, %d running, %d needed | %d, proposed %d, decided %d by %s\n",
				step.At, step.Load, step.Served, step.Lost, step.Queued, step.Ready, step.Running, step.Needed, step.Replicas, step.Proposal, step.Decision.Desired, step.Cause)
			return err
		})
		fatal.If(t, err)
		f := &result.Figures
		fmt.Fprintf(&out, "short %s over %s replicas %x running %x efficiency %x ups %d downs %d reversals %d failed %d rises %v\n\n",
			f.ShortTime, f.OverTarget, f.ReplicaHours, f.RunningHours, f.Efficiency, f.Ups, f.Downs, f.Reversals, f.FailedWrites, f.Rises)
	}
	if *update {
		fatal.If(t, os.WriteFile(golden, out.Bytes(), 0o600))
	}
	want := testpages.Read(t, golden)
	got, lines := bytes.Split(out.Bytes(), []byte("\n")), bytes.Split([]byte(want), []byte("\n"))
	for i := range max(len(got), len(lines)) {
		if i >= len(got) || i >= len(lines) || !bytes.Equal(got[i], lines[i]) {
			t.Fatalf("line %d differs from %s (-update rewrites it, after a look at the difference):\n%s\n%s", i+1, golden, got[min(i, len(got)-1)], lines[min(i, len(lines)-1)])
		}
	}
}
