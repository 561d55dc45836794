package process

import (
	"os"
	"testing"
	"time"
)

func TestCollecting(t *testing.T) {
	t.Parallel()
	log := `{"level":"info","msg":"serving"}
gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.20+0.80/0.50/9.0+0.50 ms cpu, 4->4->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P
gc 12 @10.5s 0%: 0.1+1+0.1 ms clock, 1+2/3/100+4 ms cpu, 40->44->12 MB, 60 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)
{"msg":"gc 3 @1s 0%: 1+1+1 ms clock, 1+1/1/1+1 ms cpu, "}
`
	took, times := collecting(log)
	if want := 12 * time.Millisecond; took != want || times != 2 {
		t.Errorf("%v in %d collections, want %v in 2, without idle workers", took, times, want)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	for began := time.Now(); CPU(os.Getpid()) == 0; {
		if time.Since(began) > 30*time.Second {
			t.Fatal("a busy process has had no processor time")
		}
	}
	if CPU(-1) != 0 || Resident(-1) != 0 {
		t.Error("a process that does not exist has had time or memory")
	}
	if Resident(os.Getpid()) < 1<<20 {
		t.Errorf("%.0f bytes are resident", Resident(os.Getpid()))
	}
	if busy, _ := Busy(); busy < CPU(os.Getpid()) {
		t.Errorf("the machine has been busy for %v, less than this process alone", busy)
	}
}
