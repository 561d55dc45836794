package scenario

import (
	"os"

	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
)

var start = Scenario{
	Name: "start", Title: "Start",
	Note: "Time from the start of the process until /readyz answers 200, four starts per run, with Redis and without; and the program's size.",
	play: (*stage).start,
}

// startsPerRun is the number of starts of each kind, of which the median counts.
const startsPerRun = 4

func (s *stage) start() ([]report.Figure, error) {
	redis, err := s.redis()
	if err != nil {
		return nil, err
	}
	onRedis := report.Figure{Name: "cold start to ready, Redis", Unit: "ms", Goal: report.AtMost(150)}
	inMemory := report.Figure{Name: "cold start to ready, memory", Unit: "ms", Goal: report.AtMost(150)}
	for range s.Runs {
		for f, flags := range map[*report.Figure][]string{&onRedis: {"--redis=" + redis.URL()}, &inMemory: nil} {
			took, err := s.started(flags)
			if err != nil {
				return nil, err
			}
			f.Runs = append(f.Runs, took)
		}
	}
	file, err := os.Stat(s.Program)
	if err != nil {
		return nil, err
	}
	size := report.Figure{Name: "program", Unit: "MiB", Goal: report.AtMost(60), Runs: []float64{float64(file.Size()) / (1 << 20)}}
	return []report.Figure{onRedis, inMemory, size}, nil
}

// started returns the median time of some starts, in milliseconds.
func (s *stage) started(flags []string) (float64, error) {
	var f report.Figure
	for range startsPerRun {
		service, err := process.StartService(s.Program, s.Folder, flags...)
		if err != nil {
			return 0, err
		}
		f.Runs = append(f.Runs, millis(service.Started))
		if err := service.Stop(); err != nil {
			return 0, err
		}
	}
	return f.Median(), nil
}
