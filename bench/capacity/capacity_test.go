package capacity

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/scenario"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

var update = flag.Bool("update", false, "write the tables into docs/operate/scaling.md")

// some are costs with simple numbers.
var some = Costs{
	Service: Cost{Decision: 10, Trip: 50}, Redis: Cost{Decision: 4, Trip: 20}, Request: 1700, Answer: 450, Sent: 320, Received: 4,
	TargetBytes: 500, CacheBytes: 450, InstanceBytes: 40 << 20, IdleCommands: 3000,
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, rule := range []struct {
		name                          string
		targets                       float64
		change                        func(*Costs, *Machine, *Load)
		instances, masters            int
		whyInstances, whyMasters, not string
	}{
		{name: "little needs one of each", targets: 1000, instances: 1, masters: 1, whyInstances: "processor"},
		// 100,000/s x 10.2 us are 1.02 busy cores of 1.2; x 4.08 us are 0.408 of 0.6 of a thread.
		{name: "processors that suffice", targets: 1.5e6, instances: 1, masters: 1, whyInstances: "processor"},
		// 200,000/s: 2.04 cores, and 0.816 threads, of which two masters have half each.
		{name: "processors that do not", targets: 3e6, instances: 2, masters: 2, whyInstances: "processor", whyMasters: "processor"},
		{name: "asked less often", targets: 3e6, change: func(_ *Costs, _ *Machine, l *Load) { l.Period = 60 }, instances: 1, masters: 1, whyInstances: "processor"},
		// 50 kB of each of a million targets, twice, are 6 masters of 16 GiB; 6 have 43 buckets at most, and 7 would 37.
		{name: "memory", targets: 1e6, change: func(c *Costs, _ *Machine, _ *Load) { c.TargetBytes = 50_000 }, instances: 1, masters: 6, whyInstances: "processor", whyMasters: "memory"},
		// 100,000/s x 100 kB are 10 GB/s of 0.75 an instance.
		{name: "network", targets: 1.5e6, change: func(c *Costs, _ *Machine, _ *Load) { c.Request = 100_000 }, instances: 14, masters: 1, whyInstances: "network"},
		{name: "a bucket that is too much for a master", targets: 1e11, instances: 0, masters: 256, whyInstances: "processor", whyMasters: "processor", not: "a bucket needs more than one master"},
		{name: "connections", targets: 1.5e7, change: func(_ *Costs, m *Machine, _ *Load) { m.Clients = 100 }, instances: 0, masters: 8, whyInstances: "processor", whyMasters: "processor", not: "connections"},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			l, c, m := Load{rule.targets, 15, 500}, some, Usual
			if rule.change != nil {
				rule.change(&c, &m, &l)
			}
			s := Plan(l, c, m)
			if rule.instances > 0 && s.Instances != rule.instances || s.Masters != rule.masters || s.WhyInstances != rule.whyInstances || s.WhyMasters != rule.whyMasters {
				t.Errorf("%+v, want %d instances (%s) and %d masters (%s)", s, rule.instances, rule.whyInstances, rule.masters, rule.whyMasters)
			}
			if (s.Broken != "") != (rule.not != "") || !strings.Contains(s.Broken, rule.not) {
				t.Errorf("not possible: %q, want %q", s.Broken, rule.not)
			}
		})
	}
}

func TestMoreTargetsNeverNeedLess(t *testing.T) {
	t.Parallel()
	before := Size{}
	for targets := 1e3; targets < 1e10; targets *= 1.1 {
		s := Plan(Load{targets, 15, 500}, some, Usual)
		if s.Instances < before.Instances || s.Masters < before.Masters || s.RedisMemory < before.RedisMemory {
			t.Fatalf("%v targets: %+v, fewer: %+v", targets, s, before)
		}
		before = s
	}
}

func TestEachBucketHasAMaster(t *testing.T) {
	t.Parallel()
	for masters := 1; masters <= buckets; masters++ {
		of := make([]int, masters)
		for b := range buckets {
			of[Master(b, masters)]++
		}
		for i, n := range of {
			if even := buckets / masters; n < even-1 || n > even+2 {
				t.Errorf("master %d of %d has %d buckets", i, masters, n)
			}
		}
	}
	if Share(1) != 1 || Share(3) != 86./256 || Share(256) != 1./256 {
		t.Errorf("shares %v, %v, %v", Share(1), Share(3), Share(256))
	}
}

// One queue without a service before it has the mean waiting time of queueing theory's M/D/1: by
// its distribution half the calls wait no longer than a known time.
func TestAMastersQueueIsThatOfTheory(t *testing.T) {
	t.Parallel()
	c := Costs{Redis: Cost{Decision: 1000}} // 1 ms
	for _, busy := range []float64{.3, .6, .8} {
		s := Size{Load: Load{Targets: 400_000, Period: 400_000 * 1e-3 / busy, Batch: 1}, Instances: 1, Masters: 1, Together: 1}
		p := Play(s, c, Usual, 0, 0, 1)
		if math.Abs(p.Redis-busy) > .01*busy {
			t.Errorf("busy %v, want %v", p.Redis, busy)
		}
		if want := 1 + busy/(2*(1-busy)); math.Abs(p.Mean-want) > .03*want {
			t.Errorf("busy %v: a mean of %v ms, want %v", busy, p.Mean, want)
		}
	}
}

// What is played is as busy as the formulas say.
func TestSizesHoldWhenTheyArePlayed(t *testing.T) {
	t.Parallel()
	for _, targets := range sizes {
		if targets > 1e7 && testing.Short() {
			continue
		}
		s := Plan(Load{targets, 15, 500}, some, Usual)
		p := Play(s, some, Usual, 0, 0, 1)
		if p.Redis > Usual.Busy*1.1 || math.Abs(p.Redis-s.Fullest) > .1*s.Fullest+.01 {
			t.Errorf("%v targets: the busiest master is busy to %.3f, computed %.3f", targets, p.Redis, s.Fullest)
		}
		even := s.ServiceCores / float64(s.Instances*Usual.Cores)
		if p.Service < even*.999 || p.Service > even*1.25 {
			t.Errorf("%v targets: the busiest instance is busy to %.3f, the mean is %.3f", targets, p.Service, even)
		}
	}
}

func TestALostInstancesCallsGoToTheOthers(t *testing.T) {
	t.Parallel()
	s := Plan(Load{1e7, 15, 500}, some, Usual)
	all, lost := Play(s, some, Usual, 1, 0, 1), Play(s, some, Usual, 0, 1, 1)
	if lost.Service <= all.Service || lost.P99 <= all.P99 {
		t.Errorf("with two fewer: %+v, with all: %+v", lost, all)
	}
}

func TestCostsNeedTheirFigures(t *testing.T) {
	t.Parallel()
	_, err := CostsOf([]*report.Report{{}})
	if err == nil || !strings.Contains(err.Error(), "Redis memory a further target") || !strings.Contains(err.Error(), "a request, encoded") {
		t.Errorf("an empty report: %v", err)
	}
}

// With 500 requests for three masters a trip has a cost of 60/166.7 us a decision, with four 15.
func TestCostsOfAReport(t *testing.T) {
	t.Parallel()
	trip := func(together, micros, each float64) float64 { return each + micros/together }
	r := &report.Report{Scenarios: []report.Scenario{{Name: scenario.Instances}}}
	for name, value := range map[string]float64{
		scenario.BatchRequests: 500, scenario.RequestBytes: 1, scenario.AnswerBytes: 2, scenario.SentBytes: 3, scenario.ReceivedBytes: 4,
		scenario.TargetBytes: 5, scenario.InstanceBytes: 6,
		fmt.Sprintf(scenario.IdleCommands, scenario.OneOnThree):                    7,
		fmt.Sprintf(scenario.ServiceMicros, scenario.Batches, scenario.OneOnThree): trip(500./3, 60, 20),
		fmt.Sprintf(scenario.ServiceMicros, scenario.Thin, scenario.OneOnThree):    trip(4, 60, 20),
		fmt.Sprintf(scenario.RedisMicros, scenario.Batches, scenario.OneOnThree):   trip(500./3, 30, 8),
		fmt.Sprintf(scenario.RedisMicros, scenario.Thin, scenario.OneOnThree):      trip(4, 30, 8),
	} {
		r.Scenarios[0].Figures = append(r.Scenarios[0].Figures, report.Figure{Name: name, Runs: []float64{value}})
	}
	c, err := CostsOf([]*report.Report{r})
	fatal.If(t, err)
	for name, beside := range map[string][2]float64{
		"service":           {c.Service.Decision, 20},
		"its trip":          {c.Service.Trip, 60},
		"Redis":             {c.Redis.Decision, 8},
		"its trip in Redis": {c.Redis.Trip, 30},
		"memory":            {c.InstanceBytes, 6 << 20},
		"commands":          {c.IdleCommands, 7},
		"bytes":             {c.Request + 10*c.Answer + 100*c.Sent + 1000*c.Received + 1e4*c.TargetBytes, 54321},
	} {
		if math.Abs(beside[0]-beside[1]) > 1e-6*beside[1] {
			t.Errorf("%s: %v, want %v", name, beside[0], beside[1])
		}
	}
}

// TestThePageHasTheTables looks whether docs/operate/scaling.md has the tables of measured.json;
// with -update it writes them.
func TestThePageHasTheTables(t *testing.T) {
	root, err := process.Repository()
	fatal.If(t, err)
	file := filepath.Join(root, "docs", "operate", "scaling.md")
	reports, err := report.Read([]string{"measured.json"})
	fatal.If(t, err)
	text, err := Page(reports)
	fatal.If(t, err)
	if *update {
		fatal.If(t, report.Replace(file, beginMarker, endMarker, text))
	}
	page := testpages.Read(t, file)
	if !strings.Contains(page, beginMarker+"\n"+text+"\n"+endMarker) {
		t.Errorf("%s is not what measured.json gives: cd bench && go test ./capacity -update", file)
	}
}
