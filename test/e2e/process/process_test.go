package process_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/process"
)

func TestProcessorTimeIsThatOfTheProcess(t *testing.T) {
	t.Parallel()
	before, err := process.Processor(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = 100 * time.Millisecond
	began, took, sum := time.Now(), time.Duration(0), 0
	for took < work && time.Since(began) < time.Minute { // others may have the processors
		for i := range 1_000_000 {
			sum += i
		}
		after, err := process.Processor(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		took = after - before
	}
	if wall := time.Since(began); took < work || took > wall*time.Duration(2*runtime.NumCPU()) {
		t.Errorf("%v of processor time in %v of work (%d)", took, wall, sum)
	}
	if _, err := process.Processor(-1); err == nil {
		t.Error("a process that is none has taken time")
	}
}
