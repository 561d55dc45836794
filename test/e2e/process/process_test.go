package process_test

import (
	"os"
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
	began, sum := time.Now(), 0
	for time.Since(began) < 300*time.Millisecond {
		for i := range 1000 {
			sum += i
		}
	}
	after, err := process.Processor(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if took := after - before; took <= 0 || took > 20*time.Second {
		t.Errorf("%v of processor time in %v of work (%d)", took, time.Since(began), sum)
	}
	if _, err := process.Processor(-1); err == nil {
		t.Error("a process that is none has taken time")
	}
}
